/** One Redis, a worker in one process and producers in others, as on several machines. */
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { PartialSegment } from '../../src/core/job/job.ts';
import { asTranscript, type Transcript } from '../../src/core/results/job-result.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { readSegments } from '../../src/queue/events/segment-stream.ts';
import { readPresence } from '../../src/queue/fleet/presence.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { BASE_CLIP, expectSaid, ffmpeg, longSpeech } from '../support/speech.ts';
import { runWavepool, type WavepoolProcess } from '../support/wavepool-process.ts';
import { Workplace } from '../support/workplace.ts';

const MODEL = 'moonshine-tiny';

let place: Workplace;
let redis: TestRedis;
let redisUrl: string;
let queue: AudioQueue;
let results: LocalResultStore;
let worker: WavepoolProcess;

beforeAll(async () => {
  place = await Workplace.create();
  redis = await startRedis();
  const { address } = redis;
  redisUrl = address.kind === 'socket' ? `unix://${address.path}` : address.url;
  queue = await AudioQueue.open({ address, model: MODEL });
  results = await LocalResultStore.open(join(place.dataDir, 'results'));
  worker = place.command('worker', ['--redis', redisUrl, '--workers', '1']);
  await worker.before(worker.said('serving'));
});

afterAll(async () => {
  await queue.close();
  await place[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
});

/** Runs a producer in a process of its own; returns the ids of its jobs. */
async function enqueue(...args: string[]): Promise<string[]> {
  const end = await runWavepool(['enqueue', '--redis', redisUrl, ...args]);
  expect(end.code, end.stderr).toBe(0);
  return end.stdout.trim().split('\n');
}

async function transcriptOf(id: string): Promise<Transcript> {
  const { resultKey } = await queue.waitFor(id);
  return asTranscript(await results.read(resultKey));
}

test('what one terminal enqueues another transcribes; its segments can be seen arriving', async () => {
  const recording = join(place.inputs, 'talk.flac');
  await longSpeech(recording, 40);
  const [id = ''] = await enqueue(recording, '--partials');
  const { segments } = await transcriptOf(id);
  const connection = await redis.connection();
  const streamed = await readSegments(connection, [{ queue: queue.name, jobId: id }]);
  const told = streamed.map(({ segment }): PartialSegment => segment);
  expect(told.length).toBeGreaterThan(1);
  const inOrder = told.toSorted((a, b) => a.index - b.index).filter(({ text }) => text !== '');
  expect(inOrder.map(({ start, end, text }) => ({ start, end, text }))).toEqual(
    segments.map(({ start, end, text }) => ({ start, end, text })),
  );
});

test('nobody is told the segments of a job that did not ask for it', async () => {
  const [id = ''] = await enqueue(BASE_CLIP.path);
  await queue.waitFor(id);
  const connection = await redis.connection();
  expect(await readSegments(connection, [{ queue: queue.name, jobId: id }])).toEqual([]);
});

test('a third terminal sees the worker, its models and their slots', async () => {
  const end = await runWavepool(['status', '--redis', redisUrl, '--json']);
  expect(end.code, end.stderr).toBe(0);
  const status = JSON.parse(end.stdout);
  expect(status.queues).toMatchObject([{ model: MODEL, workers: 1 }]);
  expect(status.workers).toMatchObject([
    {
      models: [{ id: MODEL, slots: 1, batch: 8 }],
      runtime: {
        models: [
          { id: 'silero-vad', state: 'ready' },
          { id: MODEL, state: 'ready', slots: 1, family: 'moonshine' },
          { id: 'silero-vad~live', state: 'unloaded' },
        ],
      },
    },
  ]);
  expect(status.workers[0].pid).not.toBe(worker.pid);
});

test.each([
  ['mulaw', 'mulaw,8000,1', ['-ar', '8000', '-ac', '1', '-f', 'mulaw']],
  ['alaw', 'alaw,8000,1', ['-ar', '8000', '-ac', '1', '-f', 'alaw']],
  ['s16le', 's16le,44100,2', ['-ar', '44100', '-ac', '2', '-f', 's16le']],
  ['f32be', 'f32be,16000,1', ['-ar', '16000', '-ac', '1', '-f', 'f32be']],
])('declared %s without a header says the same', async (name, declared, encoding) => {
  const recording = join(place.inputs, `${name}.raw`);
  await ffmpeg('-i', BASE_CLIP.path, ...encoding, recording);
  const [id = ''] = await enqueue(recording, '--input-format', declared);
  expectSaid((await transcriptOf(id)).text, BASE_CLIP.reference);
});

test('run takes the declaration, too', async () => {
  const recording = join(place.inputs, 'alone.raw');
  await ffmpeg('-i', BASE_CLIP.path, '-ar', '8000', '-ac', '1', '-f', 'mulaw', recording);
  const declared = ['--input-format', 'mulaw,8000,1', '--workers', '1'];
  const { code, stdout, stderr } = await place.run([recording, ...declared]);
  expect(code, stderr).toBe(0);
  expectSaid(stdout, BASE_CLIP.reference);
});

test.each(['pcm_mulaw', 'pcm_alaw'])('a WAV of %s says the same', async (codec) => {
  const recording = join(place.inputs, `${codec}.wav`);
  await ffmpeg('-i', BASE_CLIP.path, '-ar', '8000', '-ac', '1', '-c:a', codec, recording);
  const [id = ''] = await enqueue(recording);
  expectSaid((await transcriptOf(id)).text, BASE_CLIP.reference);
});

test.each(['undeclared.wav', 'undeclared.ul', 'undeclared'])(
  'undeclared samples named %s are INPUT_UNDECODABLE, and not tried again',
  async (name) => {
    const recording = join(place.inputs, name);
    await ffmpeg('-i', BASE_CLIP.path, '-ar', '8000', '-ac', '1', '-f', 'mulaw', `${recording}.x`);
    await copyFile(`${recording}.x`, recording);
    const id = await queue.add({ input: { kind: 'path', path: recording } });
    await expect(queue.waitFor(id)).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
    expect(await queue.get(id)).toMatchObject({ state: 'failed', attemptsMade: 1 });
  },
);

test('a job that waits is cancelled from any terminal, and a failed one retried', async () => {
  const [id = ''] = await enqueue(BASE_CLIP.path, '--delay', '1h');
  const cancelled = await runWavepool(['jobs', 'cancel', id, '--redis', redisUrl]);
  expect(cancelled.stdout).toBe(`${id}: cancelled\n`);
  const retried = await runWavepool(['jobs', 'retry', id, '--redis', redisUrl]);
  expect(retried.stdout).toBe(`${id}: waiting\n`);
  expectSaid((await transcriptOf(id)).text, BASE_CLIP.reference);
});

test('a worker that is stopped is gone for the others at once', async () => {
  const connection = await redis.connection();
  expect(await readPresence(connection)).toHaveLength(1);
  worker.kill('SIGTERM');
  expect(await worker.ended).toMatchObject({ code: 0 });
  expect(await readPresence(connection)).toEqual([]);
});
