import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { CancelResource, JobPage, JobResource } from '../../../src/core/http/api.ts';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { Transcript } from '../../../src/core/results/job-result.ts';
import { renderTranscript } from '../../../src/core/results/transcript-formats.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { heard } from '../../support/events.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { startTranscriber } from '../../support/transcriber.ts';

let server: TestServer;
let worker: AsyncDisposable;
let root: string;

beforeAll(async () => {
  server = await startTestServer();
  root = server.inputRoot;
  worker = await startTranscriber({
    address: server.redis.address,
    model: TEST_MODEL,
    results: server.services.results,
    places: { uploadsDir: server.uploadsDir },
  });
});
afterAll(async () => {
  await worker[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

async function put(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(root, name);
  await writeFile(path, content);
  return path;
}

async function add(body: object, headers?: Record<string, string>): Promise<JobResource> {
  const response = await server.post('/v1/jobs', body, headers);
  expect(response.status).toBe(202);
  const job = JobResource.parse(await response.json());
  expect(response.headers.get('location')).toBe(job.links.self);
  return job;
}

/** The job when it has ended. */
async function ended(id: string): Promise<JobResource> {
  const { queue } = await server.services.queues.get(id);
  await queue.waitFor(id).catch((error: unknown) => expect(error).toBeInstanceOf(WavepoolError));
  return show(id);
}

async function show(id: string): Promise<JobResource> {
  const response = await server.request(`/v1/jobs/${id}`);
  expect(response.status).toBe(200);
  return JobResource.parse(await response.json());
}

async function problem(response: Response): Promise<ProblemDetails> {
  const details = ProblemDetails.parse(await response.json());
  expect(details.status).toBe(response.status);
  return details;
}

/** A job that the worker holds until it is cancelled. */
async function startHanging(name: string): Promise<JobResource> {
  const queue = await server.services.queues.queueOf(TEST_MODEL);
  const started = new Promise<void>((resolve) => {
    queue.on('progress', () => resolve());
  });
  const job = await add({ input: { path: await put(name, 'hang') } });
  await started;
  return job;
}

describe('a job', () => {
  test('runs, and its result comes in every format', async () => {
    const job = await add({ input: { path: await put('talk.wav', 'hello there') }, tenant: 'a' });
    expect(job).toMatchObject({ model: TEST_MODEL, tenant: 'a', priority: 1_000 });
    const done = await ended(job.id);
    expect(done).toMatchObject({ state: 'completed', input: { kind: 'path', name: 'talk.wav' } });
    const json = await server.request(`${job.links.result}?format=json`);
    const transcript = Transcript.parse(await json.json());
    expect(transcript.text).toBe('hello there');
    for (const [format, type] of [
      ['txt', 'text/plain'],
      ['srt', 'application/x-subrip'],
      ['vtt', 'text/vtt'],
    ] as const) {
      const response = await server.request(`${job.links.result}?format=${format}`);
      expect(response.headers.get('content-type')).toContain(type);
      expect(await response.text()).toBe(renderTranscript(transcript, format));
    }
  });

  test('fails with a code of the table, and runs again when retried', async () => {
    const path = await put('bad.wav', 'fail INPUT_UNDECODABLE');
    const { id, links } = await add({ input: { path } });
    expect(await ended(id)).toMatchObject({
      state: 'failed',
      failure: { code: 'INPUT_UNDECODABLE', type: 'invalid_request_error', retryable: false },
      attempts: 1,
    });
    const result = await problem(await server.request(links.result));
    expect(result).toMatchObject({ code: 'JOB_NOT_FINISHED', status: 409 });
    await put('bad.wav', 'better now');
    const response = await server.request(`${links.self}/retry`, { method: 'POST' });
    expect(response.status).toBe(202);
    expect(await ended(id)).toMatchObject({ state: 'completed', failure: null });
    const again = await server.request(`${links.self}/retry`, { method: 'POST' });
    expect(await problem(again)).toMatchObject({ code: 'JOB_NOT_RETRYABLE', status: 409 });
  });

  test('is cancelled while it waits, while it runs, and harmlessly when it has ended', async () => {
    const running = await startHanging('hang.wav');
    const waiting = await add({ input: { path: await put('later.wav', 'later') } });
    const first = await server.request(waiting.links.self, { method: 'DELETE' });
    expect(first.status).toBe(200);
    expect(await first.json()).toEqual({ id: waiting.id, result: 'cancelled', purged: false });
    const second = await server.request(running.links.self, { method: 'DELETE' });
    expect(second.status).toBe(202);
    expect(CancelResource.parse(await second.json()).result).toBe('requested');
    expect(await ended(running.id)).toMatchObject({ state: 'cancelled' });
    const third = await server.request(running.links.self, { method: 'DELETE' });
    expect(await third.json()).toMatchObject({ result: 'finished' });
    expect(await show(waiting.id)).toMatchObject({
      state: 'cancelled',
      failure: { code: 'CANCELLED' },
    });
  });

  test('is forgotten with its upload and transcript when it is purged', async () => {
    const upload = await server.request('/v1/uploads', { method: 'POST', body: 'secret words' });
    const { id: uploadId } = JSON.parse(await upload.text());
    const job = await add({ input: { uploadId, name: 'a.wav' } });
    expect(await ended(job.id)).toMatchObject({ state: 'completed' });
    const response = await server.request(`${job.links.self}?purge`, { method: 'DELETE' });
    expect(await response.json()).toEqual({ id: job.id, result: 'finished', purged: true });
    expect((await server.request(job.links.self)).status).toBe(404);
    const { results, uploads } = server.services;
    await expect(results.read(results.keyOf(job.id))).rejects.toMatchObject({
      code: 'RESULT_NOT_FOUND',
    });
    await expect(uploads.use(uploadId)).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
  });

  test('that runs is stopped before it is forgotten, and an upload that another job needs stays', async () => {
    const upload = await server.request('/v1/uploads', { method: 'POST', body: 'hang on' });
    const { id: uploadId } = JSON.parse(await upload.text());
    const queue = await server.services.queues.queueOf(TEST_MODEL);
    const first = await add({ input: { uploadId } });
    await heard(queue, 'progress', first.id);
    const second = await add({ input: { uploadId } });
    const response = await server.request(`${first.links.self}?purge=1`, { method: 'DELETE' });
    expect(await response.json()).toMatchObject({ result: 'requested', purged: true });
    await server.services.uploads.use(uploadId);
    await server.request(`${second.links.self}?purge=1`, { method: 'DELETE' });
    await expect(server.services.uploads.use(uploadId)).rejects.toThrow();
  });

  test.each([
    [{}, 'input'],
    [{ input: {} }, 'input'],
    [{ input: { path: '/a', url: 'http://a.example/' } }, 'input'],
    [{ input: { url: 'file:///etc/passwd' } }, 'input.url'],
    [{ input: { uploadId: 'x' } }, 'input.uploadId'],
    [{ input: { path: '/a' }, options: { vad: { threshold: 2 } } }, 'options.vad.threshold'],
    [{ input: { path: '/a' }, priority: -1 }, 'priority'],
    [{ input: { path: '/a' }, model: 'No Such' }, 'model'],
    [{ input: { path: '/a' }, unknown: 1 }, ''],
  ])('%j is refused with the path of the field', async (body, path) => {
    const details = await problem(await server.post('/v1/jobs', body));
    expect(details).toMatchObject({ code: 'INVALID_REQUEST', status: 400 });
    expect(details.errors?.map((error) => error.path)).toContain(path);
  });

  test('for a model that nobody knows is refused, and one that a queue has had is not', async () => {
    const path = await put('m.wav', 'x');
    const refused = await server.post('/v1/jobs', { input: { path }, model: 'nobody' });
    expect(await problem(refused)).toMatchObject({ code: 'MODEL_UNKNOWN', status: 404 });
    await using queue = await AudioQueue.open({ address: server.redis.address, model: 'rare' });
    await queue.add({ input: { kind: 'path', path } });
    expect(await add({ input: { path }, model: 'rare' })).toMatchObject({ model: 'rare' });
  });

  test('takes its clocks, delay and options from the request', async () => {
    const path = await put('o.wav', 'x');
    const body = {
      input: { path },
      delayMs: 3_600_000,
      deadlineMs: 7_200_000,
      timeoutMs: 5,
      busyTimeoutMs: 6,
      attempts: 7,
      partials: true,
      options: { language: 'en' },
    };
    const job = await add(body);
    expect(job.state).toBe('delayed');
    expect(Date.parse(job.deadlineAt ?? '') - Date.parse(job.createdAt)).toBeCloseTo(7_200_000, -2);
    const { view } = await server.services.queues.get(job.id);
    expect(view.data).toMatchObject({
      partials: true,
      options: { language: 'en' },
      clocks: { timeoutMs: 5, busyTimeoutMs: 6 },
    });
  });
});

describe('an idempotency key', () => {
  test('gives the same job for the same request and a conflict for another', async () => {
    const path = await put('same.wav', 'same');
    const headers = { 'idempotency-key': 'k1' };
    const many = await Promise.all(
      Array.from({ length: 8 }, () => add({ input: { path } }, headers)),
    );
    expect(new Set(many.map(({ id }) => id)).size).toBe(1);
    const other = await server.post('/v1/jobs', { input: { path }, priority: 5 }, headers);
    expect(await problem(other)).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT', status: 409 });
    const different = await add({ input: { path } }, { 'idempotency-key': 'k2' });
    expect(different.id).not.toBe(many[0]?.id);
  });

  test('covers the file of a form', async () => {
    const send = (content: string): Promise<Response> => {
      const form = new FormData();
      form.append('tenant', 'forms');
      form.append('file', new Blob([content]), 'f.wav');
      form.append('priority', '7');
      const headers = { 'idempotency-key': 'form' };
      return server.request('/v1/jobs', { method: 'POST', body: form, headers });
    };
    const first = JobResource.parse(await (await send('one')).json());
    expect(first).toMatchObject({ tenant: 'forms', priority: 7, input: { name: 'f.wav' } });
    expect(JobResource.parse(await (await send('one')).json()).id).toBe(first.id);
    expect((await send('two')).status).toBe(409);
  });
});

describe('O4: inputs that hold no audio', () => {
  test('an empty upload is refused at once', async () => {
    const response = await server.request('/v1/uploads', { method: 'POST', body: '' });
    expect(await problem(response)).toMatchObject({ code: 'INPUT_EMPTY', retryable: false });
  });

  test('an empty file and random bytes by path fail for good, in one attempt', async () => {
    const random = new Uint8Array(1_048_576).map((_, at) => (at * 2_654_435_761) >>> 24);
    const empty = await add({ input: { path: await put('empty.wav', '') } });
    const noise = await add({ input: { path: await put('noise.mp3', random) } });
    const failures = [await ended(empty.id), await ended(noise.id)];
    expect(failures).toMatchObject([
      { state: 'failed', attempts: 1, failure: { code: 'INPUT_EMPTY', retryable: false } },
      { state: 'failed', attempts: 1, failure: { code: 'INPUT_UNDECODABLE', retryable: false } },
    ]);
    const next = await add({ input: { path: await put('fine.wav', 'fine') } });
    expect(await ended(next.id)).toMatchObject({ state: 'completed' });
  });
});

test.each([
  'Привет мир.wav',
  '会议 录音.wav',
  '🎙️ take.wav',
  'cafe\u0301 NFD.wav',
  'café NFC.wav',
  'a b;c\'d"e#f&g.wav',
  '100%20.wav',
  '-leading.wav',
  'a..b.wav',
  `${'x'.repeat(200)}.wav`,
])('O9: the name %j survives by path and as an upload', async (name) => {
  const folder = join(root, `dir ${name}`.slice(0, 60));
  await mkdir(folder, { recursive: true });
  const path = join(folder, name);
  await writeFile(path, 'named');
  const byPath = await add({ input: { path } });
  expect(await ended(byPath.id)).toMatchObject({ state: 'completed', input: { name, path } });
  const form = new FormData();
  form.append('file', new Blob(['named']), name);
  const response = await server.request('/v1/jobs', { method: 'POST', body: form });
  const byForm = JobResource.parse(await response.json());
  expect(byForm.input.name).toBe(name);
  const done = await ended(byForm.id);
  expect(done.state).toBe('completed');
  const result = await server.request(done.links.result);
  expect(Transcript.parse(await result.json()).text).toBe('named');
});

test('a listing tells every job that stays in its state exactly once while others are added', async () => {
  const model = 'listed';
  await using queue = await AudioQueue.open({ address: server.redis.address, model });
  const jobs = (count: number, priority: number) =>
    Array.from({ length: count }, (_, at) => ({
      input: { kind: 'path' as const, path: '/a.wav' },
      priority,
      tenant: at % 5 === 0 ? 'fifth' : 'other',
    }));
  const stay = new Set(await queue.addMany([...jobs(45, 10), ...jobs(30, 0)]));
  const [cancelled = ''] = stay;
  await queue.cancel(cancelled);
  const seen: string[] = [];
  let cursor = '';
  do {
    const response = await server.request(`/v1/jobs?model=${model}&limit=10${cursor}`);
    const page = JobPage.parse(await response.json());
    expect(page.items.length).toBeLessThanOrEqual(10);
    seen.push(...page.items.map(({ id }) => id).filter((id) => stay.has(id)));
    await queue.addMany([...jobs(3, 5), ...jobs(3, 0)]);
    cursor = page.nextCursor === null ? '' : `&cursor=${page.nextCursor}`;
    if (seen.length >= stay.size) break;
  } while (cursor !== '');
  expect(seen.toSorted()).toEqual([...stay].toSorted());
  const states = await server.request(`/v1/jobs?model=${model}&state=cancelled`);
  expect(JobPage.parse(await states.json()).items.map(({ id }) => id)).toEqual([cancelled]);
  const tenants = await server.request(`/v1/jobs?model=${model}&tenant=fifth&limit=200`);
  const { items } = JobPage.parse(await tenants.json());
  expect(items.every(({ tenant }) => tenant === 'fifth')).toBe(true);
  expect(items.length).toBeGreaterThan(10);
});

test.each([
  'limit=0',
  'limit=x',
  'state=odd',
  'cursor=bm9uZQ',
  'more=1',
  'state=failed&state=waiting',
])('a listing with %s is refused', async (query) => {
  const response = await server.request(`/v1/jobs?${query}`);
  expect(await problem(response)).toMatchObject({ code: 'INVALID_REQUEST' });
});

test('what is asked of a job that is not there says so', async () => {
  for (const [method, path] of [
    ['GET', ''],
    ['GET', '/result'],
    ['DELETE', ''],
    ['POST', '/retry'],
  ] as const) {
    const response = await server.request(`/v1/jobs/none${path}`, { method });
    expect(await problem(response)).toMatchObject({ code: 'JOB_NOT_FOUND', status: 404 });
  }
  const result = await server.request('/v1/jobs/none/result?format=doc');
  expect((await problem(result)).code).toBe('INVALID_REQUEST');
});
