/** Jobs that look for speech, over HTTP: their results, and what is refused. The worker here needs no engine. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WavepoolClient } from '../../../src/client/wavepool-client.ts';
import { JobResource } from '../../../src/core/http/api.ts';
import { BatchSubmission } from '../../../src/core/http/batch-api.ts';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { SpeechActivity } from '../../../src/core/results/job-result.ts';
import { renderSpeech } from '../../../src/core/results/result-formats.ts';
import { PresencePublisher } from '../../../src/queue/fleet/presence.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { modelStatusOf, presenceOf } from '../../support/presence.ts';
import { speechActivityOf } from '../../support/speech-activity.ts';
import { openWorker } from '../../support/worker.ts';

const DETECTOR = 'test-detector';
/** Not in the server's own list: it knows of it through its worker. */
const FOREIGN = 'foreign-detector';

let server: TestServer;
let worker: AsyncDisposable;
let presence: PresencePublisher;
let client: WavepoolClient;
let path: string;

beforeAll(async () => {
  const modelTasks = { [TEST_MODEL]: 'transcribe', [DETECTOR]: 'vad' } as const;
  server = await startTestServer({ models: [TEST_MODEL, DETECTOR], settings: { modelTasks } });
  const { results } = server.services;
  worker = openWorker(server.redis.address, DETECTOR, async ({ id, data }) => {
    const speech = speechActivityOf(String(id), [
      [0.5, 1.25],
      [2, 3],
    ]);
    const partOf = { jobId: String(id), model: data.model };
    return (await results.commit(String(id), { ...speech, ...partOf })).key;
  });
  presence = new PresencePublisher({
    address: server.redis.address,
    snapshot: () =>
      presenceOf({
        models: [{ id: FOREIGN, slots: 1, batch: 8 }],
        runtime: { build: 'test', models: [modelStatusOf(FOREIGN, { task: 'vad' })] },
      }),
    onError: () => undefined,
  });
  await presence.start();
  client = new WavepoolClient({ baseUrl: server.url });
  path = join(server.inputRoot, 'talk.wav');
  await writeFile(path, 'audio');
});

afterAll(async () => {
  await presence.close();
  await worker[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function refusalOf(response: Response): Promise<ProblemDetails> {
  return ProblemDetails.parse(await response.json());
}

describe('a vad job', () => {
  test('goes to a model that does it when none is named, and its result comes in its formats', async () => {
    const response = await server.post('/v1/jobs', { input: { path }, task: 'vad' });
    expect(response.status).toBe(202);
    const job = JobResource.parse(await response.json());
    expect(job).toMatchObject({ model: DETECTOR, task: 'vad' });
    await client.jobs.waitFor(job.id);
    const speech = SpeechActivity.parse(await (await server.request(job.links.result)).json());
    expect(speech).toMatchObject({ jobId: job.id, task: 'vad' });
    for (const format of ['rttm', 'audacity'] as const) {
      const result = await server.request(`${job.links.result}?format=${format}`);
      expect(result.headers.get('content-type')).toContain('text/plain');
      expect(await result.text()).toBe(renderSpeech(speech, format));
    }
    const refused = await refusalOf(await server.request(`${job.links.result}?format=srt`));
    expect(refused).toMatchObject({ code: 'INVALID_REQUEST', status: 400 });
    expect(refused.detail).toContain('json, rttm, audacity');
  });

  test('takes its options, and no others', async () => {
    const options = { vad: { threshold: 0.7, padMs: 0 }, maxSegmentSeconds: 30 };
    const given = await server.post('/v1/jobs', { input: { path }, task: 'vad', options });
    expect(given.status).toBe(202);
    const wrong = { input: { path }, task: 'vad', options: { language: 'en' } };
    expect(await refusalOf(await server.post('/v1/jobs', wrong))).toMatchObject({
      code: 'INVALID_REQUEST',
      errors: [{ path: 'options' }],
    });
    expect(
      await refusalOf(await server.post('/v1/jobs', { input: { path }, task: 'sing' })),
    ).toMatchObject({ code: 'INVALID_REQUEST', errors: [{ path: 'task' }] });
  });

  test('is found through the client, which takes no transcript for speech', async () => {
    const job = await client.jobs.submit({ serverPath: path, task: 'vad' });
    await client.jobs.waitFor(job.id);
    const { segments } = await client.jobs.speech(job.id);
    expect(segments.map(({ start, end }) => [start, end])).toEqual([
      [0.5, 1.25],
      [2, 3],
    ]);
    expect(await client.jobs.result(job.id, 'rttm')).toMatch(/^SPEAKER a 1 0\.500 0\.750 /);
    await expect(client.jobs.result(job.id)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });
});

describe('a task that the model does not do', () => {
  test.each([
    [{ task: 'vad', model: TEST_MODEL }, `${TEST_MODEL} is for transcribe`],
    [{ model: DETECTOR }, `${DETECTOR} is for vad`],
    [{ model: FOREIGN }, `${FOREIGN} is for vad`],
  ])('is refused for a job and a batch: %j', async (asked, words) => {
    const job = await server.post('/v1/jobs', { ...asked, input: { path } });
    const batch = await server.post('/v1/batches', { ...asked, inputs: [{ path }] });
    for (const response of [job, batch]) {
      const refusal = await refusalOf(response);
      expect(refusal).toMatchObject({ code: 'TASK_UNSUPPORTED', status: 400, retryable: false });
      expect(refusal.detail).toContain(words);
    }
    expect((await client.batches.list().next()).done).toBe(true);
  });

  test('is refused in the words of OpenAI where its clients ask', async () => {
    const form = new FormData();
    form.append('file', new Blob(['audio']), 'talk.wav');
    form.append('model', DETECTOR);
    const response = await server.request('/v1/audio/transcriptions', {
      method: 'POST',
      body: form,
    });
    expect(await refusalOf(response)).toMatchObject({
      code: 'TASK_UNSUPPORTED',
      error: { type: 'invalid_request_error', code: 'TASK_UNSUPPORTED' },
    });
  });
});

test('the results of a batch come in the formats of its task', async () => {
  const body = { task: 'vad', inputs: [{ path }, { path }] };
  const answer = await server.post('/v1/batches', body);
  const batch = BatchSubmission.parse(await answer.json());
  expect(batch).toMatchObject({ model: DETECTOR, task: 'vad' });
  await client.batches.waitFor(batch.id, { intervalMs: 20 });
  const lines = await all(client.batches.results(batch.id));
  expect(lines.map(({ speech }) => speech?.segments.length)).toEqual([2, 2]);
  expect(lines[0]).not.toHaveProperty('transcript');
  const rttm = await all(client.batches.results(batch.id, 'rttm'));
  expect(rttm.map(({ text }) => text?.split('\n').length)).toEqual([3, 3]);
  const refused = await refusalOf(await server.request(`${batch.links.results}?as=txt`));
  expect(refused).toMatchObject({ code: 'INVALID_REQUEST', status: 400 });
  const zip = await client.batches.archive(batch.id, 'audacity');
  const names = Buffer.from(await new Response(zip).arrayBuffer()).toString('latin1');
  expect(names).toContain('a.labels.txt');
});
