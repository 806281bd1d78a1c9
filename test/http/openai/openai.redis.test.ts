import { EventEmitter, once } from 'node:events';
import { readdir } from 'node:fs/promises';
import OpenAI, { APIError, toFile } from 'openai';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import type { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { SegmentWriter } from '../../../src/queue/events/segment-stream.ts';
import { PresencePublisher } from '../../../src/queue/fleet/presence.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { modelStatusOf, presenceOf } from '../../support/presence.ts';
import { startTranscriber } from '../../support/transcriber.ts';
import { transcriptOf } from '../../support/transcript.ts';
import { outcomeOf, startWorker } from '../../support/worker.ts';

const STREAMING = 'streaming-model';
/** Tells words with times. */
const SPEAKING = 'speaking-model';

let server: TestServer;
let client: OpenAI;
let queue: AudioQueue;
let transcriber: AsyncDisposable;
beforeAll(async () => {
  server = await startTestServer({
    models: [TEST_MODEL, STREAMING, SPEAKING],
    settings: { modelAliases: { 'whisper-1': TEST_MODEL } },
  });
  const { address } = server.redis;
  const { results } = server.services;
  const places = { uploadsDir: server.uploadsDir };
  transcriber = await startTranscriber({ address, model: TEST_MODEL, results, places });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 2 });
  queue = await server.services.queues.queueOf(TEST_MODEL);
});
afterAll(async () => {
  await transcriber[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

function speech(text: string): Promise<File> {
  return toFile(Buffer.from(text), 'speech.wav');
}

/** Files of uploads that are there. */
async function uploads(): Promise<string[]> {
  const names = await readdir(server.uploadsDir, { recursive: true });
  return names.filter((name) => /[0-9a-f]{64}$/.test(name));
}

async function failureOf(call: Promise<unknown>): Promise<APIError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof APIError) return error;
  throw new Error('it did not fail as the client tells failures', { cause: error });
}

async function readAll(events: AsyncIterable<unknown>): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const event of events) all.push(event);
  return all;
}

test('json holds the text, the audio is gone afterwards, and the job went before others', async () => {
  const { data, response } = await client.audio.transcriptions
    .create({ file: await speech('hello'), model: TEST_MODEL, temperature: 0, prompt: '' })
    .withResponse();
  expect(data).toEqual({ text: 'hello', usage: { type: 'duration', seconds: 1 } });
  expect(await uploads()).toEqual([]);
  const job = await queue.get(response.headers.get('x-job-id') ?? '');
  expect(job).toMatchObject({ state: 'completed', priority: 0 });
  expect(job?.data.input).toMatchObject({ kind: 'upload', name: 'speech.wav' });
});

test('text, srt and vtt are what they say', async () => {
  const ask = async (format: 'text' | 'srt' | 'vtt') =>
    client.audio.transcriptions.create({
      file: await speech('hello'),
      model: TEST_MODEL,
      response_format: format,
    });
  expect(await ask('text')).toBe('hello\n');
  expect(await ask('srt')).toBe('1\n00:00:00,000 --> 00:00:01,000\nhello\n');
  expect(await ask('vtt')).toBe('WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nhello\n');
});

test('verbose_json has the segments with their times', async () => {
  const verbose = await client.audio.transcriptions.create({
    file: await speech('hello'),
    model: TEST_MODEL,
    language: 'en',
    response_format: 'verbose_json',
    timestamp_granularities: ['segment'],
  });
  expect(verbose).toMatchObject({
    language: 'en',
    duration: 1,
    text: 'hello',
    segments: [{ id: 0, start: 0, end: 1, text: 'hello' }],
  });
});

/** A worker that commits what a recognizer with words tells; by the options of the job. */
function startSpeaking(seen: (options: unknown) => void): AsyncDisposable {
  const { results } = server.services;
  return startWorker(server.redis.address, SPEAKING, async (job) => {
    const id = String(job.id);
    seen(job.data.options);
    const words = [
      { start: 0, end: 0.4, text: 'hello,', confidence: 0.9 },
      { start: 0.5, end: 1, text: 'hello', confidence: 0.8 },
    ];
    const said = { confidence: 0.5, noSpeechProbability: 0.25, temperature: 0.2, words };
    const segment = { start: 0, end: 1, text: 'hello, hello', ...said };
    const transcript = { ...transcriptOf(id, segment.text), language: 'de', segments: [segment] };
    return outcomeOf((await results.commit(id, transcript)).key);
  });
}

test('verbose_json has words when they are asked for, and what the recognizer thinks of a segment', async () => {
  const seen = vi.fn();
  await using _ = startSpeaking(seen);
  const ask = async (granularities: ('word' | 'segment')[]) =>
    client.audio.transcriptions.create({
      file: await speech('hello'),
      model: SPEAKING,
      prompt: 'Ada',
      response_format: 'verbose_json',
      timestamp_granularities: granularities,
    });
  const words = [
    { word: 'hello,', start: 0, end: 0.4 },
    { word: 'hello', start: 0.5, end: 1 },
  ];
  const onlyWords = await ask(['word']);
  expect(onlyWords).toMatchObject({ task: 'transcribe', language: 'de', words });
  expect(onlyWords.segments).toBeUndefined();
  const both = await ask(['word', 'segment']);
  expect(both.words).toEqual(words);
  const [segment] = both.segments ?? [];
  expect(segment).toMatchObject({ temperature: 0.2, no_speech_prob: 0.25, tokens: [] });
  expect(segment?.avg_logprob).toBeCloseTo(Math.log(0.5), 3);
  // 12 bytes; zlib makes more of them.
  expect(segment?.compression_ratio).toBeGreaterThan(0.5);
  expect(segment?.compression_ratio).toBeLessThan(1);
  expect((await ask(['segment'])).words).toBeUndefined();
  expect(seen.mock.calls.map(([options]) => options)).toMatchObject([
    { words: true, prompt: 'Ada', translate: false },
    { words: true },
    { words: false },
  ]);
});

test('a translation asks for English', async () => {
  const seen = vi.fn();
  await using _ = startSpeaking(seen);
  const ask = async (format: 'json' | 'verbose_json' | 'text') =>
    client.audio.translations.create({
      file: await speech('hallo'),
      model: SPEAKING,
      response_format: format,
    });
  expect(await ask('json')).toMatchObject({ text: 'hello, hello' });
  expect(await ask('verbose_json')).toMatchObject({ task: 'translate', language: 'en' });
  expect(await ask('text')).toBe('hello, hello\n');
  expect(seen).toHaveBeenCalledTimes(3);
  expect(seen).toHaveBeenCalledWith(expect.objectContaining({ translate: true }));
});

test('what a loaded model does not have is refused before anything is queued', async () => {
  const presence = presenceOf({
    models: [{ id: TEST_MODEL, slots: 1, batch: 1 }],
    runtime: { build: 'test', models: [modelStatusOf(TEST_MODEL, { task: 'asr' })] },
  });
  const { address } = server.redis;
  await using publisher = new PresencePublisher({ address, snapshot: () => presence });
  await publisher.start();
  const ask = async (request: object) =>
    failureOf(
      client.audio.transcriptions.create({
        file: await speech('hello'),
        model: TEST_MODEL,
        ...request,
      }),
    );
  const words = { response_format: 'verbose_json', timestamp_granularities: ['word'] };
  for (const request of [words, { prompt: 'Ada' }, { language: 'de' }]) {
    expect(await ask(request)).toMatchObject({
      status: 400,
      code: 'OPTION_UNSUPPORTED',
      type: 'invalid_request_error',
    });
  }
  const { text } = await client.audio.transcriptions.create({
    file: await speech('fine'),
    model: TEST_MODEL,
    language: 'en',
  });
  expect(text).toBe('fine');
});

test('the same file in many requests at once is each request’s own', async () => {
  const file = await speech('together');
  const all = await Promise.all(
    Array.from({ length: 12 }, () =>
      client.audio.transcriptions.create({ file, model: TEST_MODEL }),
    ),
  );
  expect(all.map(({ text }) => text)).toEqual(Array.from({ length: 12 }, () => 'together'));
  expect(await uploads()).toEqual([]);
});

test('a stream tells the text in order while it arrives, then the whole', async () => {
  const { address } = server.redis;
  const { results } = server.services;
  const connection = await server.redis.connection();
  const told = new EventEmitter();
  const firstDeltas = once(told, 'deltas');
  await using _ = startWorker(address, STREAMING, async (job) => {
    const id = String(job.id);
    expect(job.data.partials).toBe(true);
    const writer = new SegmentWriter(connection, STREAMING, id);
    for (const [index, text] of [
      [1, 'two'],
      [0, 'one'],
    ] as const) {
      writer.append({ index, start: index, end: index + 1, text });
    }
    // Nothing but the segments can have told the client.
    await firstDeltas;
    return outcomeOf((await results.commit(id, transcriptOf(id, 'one two three'))).key);
  });
  const stream = await client.audio.transcriptions.create({
    file: await speech('hello'),
    model: STREAMING,
    stream: true,
  });
  const deltas: string[] = [];
  let whole = '';
  for await (const event of stream) {
    if (event.type === 'transcript.text.delta') deltas.push(event.delta);
    if (event.type === 'transcript.text.done') whole = event.text;
    if (deltas.join('') === 'one two') told.emit('deltas');
  }
  expect(deltas.join('')).toBe('one two three');
  expect(whole).toBe('one two three');
});

test('a stream tells a failure as the client expects it', async () => {
  const stream = await client.audio.transcriptions.create({
    file: await speech('fail INPUT_UNDECODABLE'),
    model: TEST_MODEL,
    stream: true,
  });
  expect(await failureOf(readAll(stream))).toMatchObject({
    code: 'INPUT_UNDECODABLE',
    type: 'invalid_request_error',
  });
});

test('models are listed and found; an alias works where it is set', async () => {
  const models: string[] = [];
  for await (const { id, object } of client.models.list()) models.push(`${object} ${id}`);
  expect(models.toSorted()).toEqual(
    [STREAMING, SPEAKING, TEST_MODEL].map((id) => `model ${id}`).toSorted(),
  );
  expect(await client.models.retrieve(TEST_MODEL)).toMatchObject({
    id: TEST_MODEL,
    object: 'model',
  });
  expect((await failureOf(client.models.retrieve('gpt-4o'))).code).toBe('MODEL_UNKNOWN');
  const { text } = await client.audio.transcriptions.create({
    file: await speech('aliased'),
    model: 'whisper-1',
  });
  expect(text).toBe('aliased');
});

test('what is wrong is told with status, type, code and field', async () => {
  const ask = async (request: object, text = 'hello') =>
    failureOf(
      client.audio.transcriptions.create({
        file: await speech(text),
        model: TEST_MODEL,
        ...request,
      }),
    );
  expect(await ask({ model: 'gpt-4o-transcribe' })).toMatchObject({
    status: 404,
    code: 'MODEL_UNKNOWN',
    type: 'not_found',
    param: 'model',
  });
  expect(await ask({ model: 'Systran/Large' })).toMatchObject({ code: 'MODEL_UNKNOWN' });
  for (const [param, value] of [
    ['temperature', 0.7],
    ['response_format', 'diarized_json'],
    ['timestamp_granularities', ['word']],
    ['include', ['logprobs']],
  ] as const) {
    const error = await ask({ [param]: value });
    expect(error).toMatchObject({ status: 400, code: 'INVALID_REQUEST' });
    expect(`${error.param} ${error.message}`).toContain(param);
  }
  const bad = client.audio.translations.create({
    file: await speech('hello'),
    model: TEST_MODEL,
    response_format: 'json',
    ...{ language: 'de' },
  });
  expect(await failureOf(bad)).toMatchObject({ status: 400, code: 'INVALID_REQUEST' });
  expect(await ask({}, 'fail INPUT_EMPTY')).toMatchObject({ status: 422, code: 'INPUT_EMPTY' });
  expect(await uploads()).toEqual([]);
});

test('problems of these routes are problems, too', async () => {
  const form = new FormData();
  form.append('model', TEST_MODEL);
  const response = await server.request('/v1/audio/transcriptions', { method: 'POST', body: form });
  const problem = ProblemDetails.parse(await response.json());
  expect(problem).toMatchObject({ status: 400, error: { code: problem.code } });
  expect(response.headers.get('x-should-retry')).toBe('false');
});

test.each([false, true])(
  'a client that goes away cancels its job, and leaves no audio (stream: %s)',
  async (stream) => {
    const abort = new AbortController();
    const failed = new Promise<{ id: string; code: string }>((resolve) => {
      queue.on('failed', ({ id, failure: { code } }) => resolve({ id, code }));
    });
    const stop = (): void => abort.abort();
    queue.on('progress', stop);
    const removed = nextRemoval();
    const file = await speech('hang');
    const request = { file, model: TEST_MODEL };
    const options = { signal: abort.signal };
    const { transcriptions } = client.audio;
    const call = stream
      ? transcriptions
          .create({ ...request, stream: true }, options)
          .then((events) => readAll(events))
      : transcriptions.create(request, options);
    await call.catch(() => undefined);
    queue.off('progress', stop);
    const { id, code } = await failed;
    expect(code).toBe('CANCELLED');
    expect((await queue.get(id))?.state).toBe('cancelled');
    await removed;
    expect(await uploads()).toEqual([]);
  },
);

/** Resolves when the server has removed an upload. */
function nextRemoval(): Promise<void> {
  const { uploads: store } = server.services;
  const remove = store.remove.bind(store);
  return new Promise((resolve) => {
    const spy = vi.spyOn(store, 'remove').mockImplementation(async (id) => {
      const wasThere = await remove(id);
      spy.mockRestore();
      resolve();
      return wasThere;
    });
  });
}
