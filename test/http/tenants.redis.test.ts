import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import { createLogger } from '../../src/core/logger.ts';
import { FairShare } from '../../src/queue/tenants/fair-share.ts';
import { Housekeeping } from '../../src/worker/housekeeping/housekeeping.ts';
import { ServingWorker } from '../queue/serving-fixture.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../support/http.ts';
import { startModelQueue } from '../support/model-queue.ts';

let server: TestServer;
let client: WavepoolClient;
let path: string;

beforeAll(async () => {
  server = await startTestServer();
  client = new WavepoolClient({ baseUrl: server.url, maxRetries: 0 });
  path = join(server.inputRoot, 'a.wav');
  await writeFile(path, 'audio');
});
afterAll(() => server[Symbol.asyncDispose]());

const job = (tenant: string) =>
  client.jobs.submit({ serverPath: path, tenant, model: TEST_MODEL, priority: 7 });

test('rules of tenants are set, seen with what waits, and forgotten', async () => {
  await client.tenants.set('b', { weight: 2, concurrency: 1 });
  expect(await client.tenants.set('a', {})).toMatchObject({ rules: { weight: 1 }, waiting: 0 });
  const first = await job('b');
  const second = await job('b');
  await job('c');
  expect(second).toMatchObject({ state: 'waiting', priority: 7 });
  const waiting: string[] = [];
  for await (const { id } of client.jobs.list({ state: 'waiting', tenant: 'b' })) waiting.push(id);
  expect(new Set(waiting)).toEqual(new Set([first.id, second.id]));
  await new FairShare(server.services.queues.connection, TEST_MODEL).settle('all');
  expect(await client.tenants.list()).toEqual([
    { tenant: 'a', rules: { weight: 1 }, waiting: 0, running: 0 },
    { tenant: 'b', rules: { weight: 2, concurrency: 1 }, waiting: 2, running: 0 },
    { tenant: 'c', rules: null, waiting: 1, running: 0 },
  ]);
  const metrics = await (await server.request('/metrics')).text();
  expect(metrics).toContain('wavepool_tenant_jobs_waiting{tenant="b"} 2');
  expect(metrics).toContain('wavepool_queue_jobs{model="test-model",state="waiting"} 3');
  expect(await client.jobs.cancel(second.id)).toMatchObject({ result: 'cancelled' });
  await client.tenants.remove('a');
  await client.tenants.remove('a');
  await client.tenants.remove('b');
  expect((await client.tenants.list()).map(({ rules }) => rules)).toEqual([null, null]);
});

test('what is no rule, limit or schedule is refused', async () => {
  const refused = { code: 'INVALID_REQUEST' };
  await expect(client.tenants.set('a', { weight: 0 })).rejects.toMatchObject(refused);
  await expect(client.tenants.set('a', { concurrency: 0 })).rejects.toMatchObject(refused);
  const limit = { jobs: 0, durationMs: 1 };
  await expect(client.models.setRateLimit(TEST_MODEL, limit)).rejects.toMatchObject(refused);
  const unknown = { code: 'MODEL_UNKNOWN' };
  await expect(client.models.rateLimit('nobody')).rejects.toMatchObject(unknown);
  const input = { path };
  for (const wrong of [
    {},
    { cron: '* * * * *', everyMs: 1_000 },
    { everyMs: 1_000, timezone: 'UTC' },
    { cron: 'every day' },
    { cron: '* * * * *', timezone: 'Nowhere/Else' },
    { everyMs: 999 },
  ]) {
    await expect(client.schedules.set('s', { input, ...wrong })).rejects.toMatchObject(refused);
  }
  const forbidden = { input: { path: '/etc/hostname' }, everyMs: 1_000 };
  await expect(client.schedules.set('s', forbidden)).rejects.toMatchObject({
    code: 'INPUT_FORBIDDEN',
  });
  expect(await client.schedules.list()).toEqual([]);
});

test('a rate limit is set, seen and ended', async () => {
  expect(await client.models.rateLimit(TEST_MODEL)).toBeUndefined();
  await client.models.setRateLimit(TEST_MODEL, { jobs: 5, durationMs: 60_000 });
  expect(await client.models.rateLimit(TEST_MODEL)).toEqual({ jobs: 5, durationMs: 60_000 });
  await client.models.setRateLimit(TEST_MODEL, undefined);
  expect(await client.models.rateLimit(TEST_MODEL)).toBeUndefined();
});

test('no more jobs start in a time than the rate limit of their queue lets', async () => {
  await client.models.setRateLimit(TEST_MODEL, { jobs: 2, durationMs: 3_600_000 });
  for (let number = 0; number < 4; number += 1) await job('rated');
  const connection = await server.redis.connection();
  await using worker = new ServingWorker(connection, TEST_MODEL);
  await worker.serve(4);
  expect(worker.served).toHaveLength(2);
  await client.models.setRateLimit(TEST_MODEL, undefined);
  // One that has been told to wait does not ask before half a minute.
  await using another = new ServingWorker(connection, TEST_MODEL);
  expect(await another.take()).toBeDefined();
});

test('a schedule adds a job each time, under an id of its own, until it is ended', async () => {
  const { address } = server.redis;
  const logger = createLogger('silent', 'test');
  await using _housekeeping = await Housekeeping.start({ address, logger });
  const queue = await server.services.queues.queueOf(TEST_MODEL);
  const ended: string[] = [];
  const twice = new Promise<void>((resolve) => {
    queue.on('completed', ({ id }) => {
      if (id.startsWith('schedule-often-')) ended.push(id);
      if (ended.length === 2) resolve();
    });
  });
  await using _worker = await startModelQueue(address, TEST_MODEL, 1, () => Promise.resolve());
  const body = { input: { path }, tenant: 'clock', priority: 9, everyMs: 1_000 };
  expect(await client.schedules.set('often', body)).toMatchObject({
    id: 'often',
    model: TEST_MODEL,
    task: 'transcribe',
    tenant: 'clock',
    everyMs: 1_000,
    cron: null,
    input: { kind: 'path', name: 'a.wav' },
  });
  const nightly = { input: { path }, cron: '0 3 * * *', timezone: 'Europe/Berlin' };
  const { nextAt } = await client.schedules.set('nightly', nightly);
  const berlin = { timeZone: 'Europe/Berlin', hour: '2-digit', hourCycle: 'h23' } as const;
  expect(new Intl.DateTimeFormat('en', berlin).format(new Date(nextAt ?? ''))).toBe('03');
  expect((await client.schedules.list()).map(({ id }) => id)).toEqual(['often', 'nightly']);
  await twice;
  await client.schedules.remove('often');
  expect(new Set(ended).size).toBe(ended.length);
  const made = await client.jobs.get(ended[0] ?? '');
  expect(made).toMatchObject({ tenant: 'clock', priority: 9, state: 'completed' });
  await client.schedules.remove('nightly');
  await client.schedules.remove('nightly');
  expect(await client.schedules.list()).toEqual([]);
});
