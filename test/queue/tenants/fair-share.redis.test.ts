import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { FairShare } from '../../../src/queue/tenants/fair-share.ts';
import { TenantRuleStore } from '../../../src/queue/tenants/tenant-rules.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { jobsOf, ServingWorker } from '../serving-fixture.ts';

let redis: TestRedis;
let connection: Redis;
let rules: TenantRuleStore;
let queue: AudioQueue;
let share: FairShare;
let worker: ServingWorker;

beforeAll(async () => {
  redis = await startRedis();
  connection = await redis.connection();
  rules = new TenantRuleStore(connection);
});
afterAll(() => redis[Symbol.asyncDispose]());
beforeEach(async () => {
  const model = `m-${randomUUID()}`;
  queue = await AudioQueue.open({ address: redis.address, model });
  share = new FairShare(connection, model);
  worker = new ServingWorker(connection, model);
});
afterEach(async () => {
  await worker[Symbol.asyncDispose]();
  await queue.close();
  for (const tenant of (await rules.list()).keys()) await rules.remove(tenant);
});

/** From 10 000 jobs down to 3. */
const SIZES = [
  ...[10_000, 1_000, 400, 200, 100, 80, 60, 50, 40, 30],
  ...[20, 15, 12, 10, 8, 6, 5, 4, 3, 3],
];

test('twenty tenants of very different size wait in proportion to what they asked for, not to what others did', {
  timeout: 60_000,
}, async () => {
  for (const [at, size] of SIZES.entries()) await queue.addMany(jobsOf(`t${at}`, size));
  await worker.serve(900);
  for (const [at, size] of SIZES.entries()) {
    const turns = worker.turnsOf(`t${at}`);
    // While all wait, each is served once in twenty turns; who has ended leaves its turns to the others.
    for (const [nth, turn] of turns.entries()) {
      expect(turn, `job ${nth} of the tenant with ${size}`).toBeLessThan((nth + 1) * SIZES.length);
    }
    if (size <= 30) expect(turns).toHaveLength(size);
  }
  // Whoever waits to the end has been served as often as all others that did.
  const waiting = SIZES.flatMap((size, at) =>
    size > 200 ? [worker.turnsOf(`t${at}`).length] : [],
  );
  expect(Math.max(...waiting) - Math.min(...waiting)).toBeLessThanOrEqual(1);
  expect(await queue.counts()).toMatchObject({ waiting: sum(SIZES) - 900, delayed: 0 });
});

test('a tenant that comes late starts with the others, and one that was away is owed nothing', async () => {
  await queue.addMany(jobsOf('early', 300));
  await worker.serve(200);
  await queue.addMany(jobsOf('late', 60));
  await worker.serve(100);
  const late = worker.turnsOf('late');
  expect(late[0]).toBeLessThanOrEqual(201);
  expect(late.length).toBeGreaterThanOrEqual(49);
  expect(late.length).toBeLessThanOrEqual(51);
});

test('a tenant of twice the weight is served twice as often', async () => {
  await rules.set('double', { weight: 2 });
  await queue.addMany([...jobsOf('single', 200), ...jobsOf('double', 200)]);
  await worker.serve(150);
  expect(Math.abs(worker.turnsOf('double').length - 100)).toBeLessThanOrEqual(2);
});

test('a priority orders the jobs of its tenant and takes nothing from another', async () => {
  await queue.addMany([...jobsOf('a', 40), ...jobsOf('b', 40)]);
  const urgent = await queue.addMany(jobsOf('a', 10, { priority: 1 }));
  const last = await queue.addMany(jobsOf('a', 5, { priority: 2_000 }));
  await worker.serve(40);
  const ofA = worker.served.filter(({ tenant }) => tenant === 'a').map(({ id }) => id);
  expect(ofA.slice(0, 10)).toEqual(urgent);
  expect(ofA).toHaveLength(20);
  await worker.serve(60);
  expect(worker.served.slice(-5).map(({ id }) => id)).toEqual(last);
  expect((await queue.get(urgent[0] ?? ''))?.priority).toBe(1);
});

test('an urgent job passes thousands of its own tenant that are staged', async () => {
  await queue.addMany(jobsOf('a', 2_500));
  const [urgent] = await queue.addMany(jobsOf('a', 1, { priority: 0 }));
  await worker.serve(1);
  expect(worker.served[0]?.id).toBe(urgent);
  expect(await queue.counts()).toMatchObject({ waiting: 2_500, delayed: 0 });
});

test('a request that somebody waits for goes before everything else', async () => {
  await queue.addMany(jobsOf('a', 30, { priority: 0 }));
  const [id] = await queue.addMany(jobsOf('b', 1, { interactive: true }));
  await worker.serve(1);
  expect(worker.served[0]?.id).toBe(id);
});

test('of a limited tenant no more jobs run than it may have, and each end lets the next one in', async () => {
  await rules.set('small', { concurrency: 2 });
  const ids = await queue.addMany(jobsOf('small', 5));
  await queue.addMany(jobsOf('big', 1));
  const taken = [await worker.take(), await worker.take(), await worker.take()];
  expect(await worker.take()).toBeUndefined();
  expect(new Set(taken.map((job) => job?.data.tenant))).toEqual(new Set(['small', 'big']));
  expect(await queue.list({ states: ['waiting'], limit: 10 })).toHaveLength(3);
  const [first] = [...worker.running.values()].filter(({ data }) => data.tenant === 'small');
  if (first !== undefined) await worker.end(first);
  await share.settle(['small']);
  expect((await worker.take())?.id).toBe(ids[2]);
  expect(await worker.take()).toBeUndefined();
});

test('a staged job is seen, cancelled and retried like any other', async () => {
  await rules.set('small', { concurrency: 1 });
  const [first, second, third] = await queue.addMany(jobsOf('small', 3));
  const job = await worker.take();
  expect(job?.id).toBe(first);
  expect((await queue.get(second ?? ''))?.state).toBe('waiting');
  expect(await queue.cancel(second ?? '')).toBe('cancelled');
  expect((await queue.get(second ?? ''))?.state).toBe('cancelled');
  expect(await queue.retry(second ?? '')).toBe(true);
  await share.settle('all');
  expect(await worker.take()).toBeUndefined();
  if (job !== undefined) await worker.end(job);
  await share.settle('all');
  // It lost its turn by being cancelled.
  expect((await worker.take())?.id).toBe(third);
});

test('what was added but not settled when its producer died is let in by whoever settles next', async () => {
  await rules.set('small', { concurrency: 3 });
  const ids = await queue.addMany(jobsOf('small', 6));
  // As if nothing of the index had been written.
  const keys = await connection.keys(`wavepool:${queue.name}:_*`);
  await connection.del(...keys);
  const delayed = `wavepool:${queue.name}:delayed`;
  const staged = await connection.zrange(delayed, '0', '-1');
  for (const id of staged) await connection.zadd(delayed, 2_190_000_000_000 * 4_096, id);
  await share.settle('all');
  await share.settle('all');
  const served = new Set<string>();
  for (let round = 0; round < 6; round += 1) {
    const job = await worker.take();
    if (job === undefined) break;
    served.add(String(job.id));
    await worker.end(job);
    await share.settle('all');
  }
  expect(served).toEqual(new Set(ids));
});

test('virtual time starts again before its numbers run out, and nobody loses a turn by it', async () => {
  await queue.addMany([...jobsOf('a', 50), ...jobsOf('b', 50)]);
  const shift = 1_500_000;
  const prioritized = `wavepool:${queue.name}:prioritized`;
  for (const id of await connection.zrange(prioritized, '0', '-1'))
    await connection.zincrby(prioritized, shift * 2 ** 32, id);
  for (const tenant of ['a', 'b'])
    await connection.zincrby(`wavepool:${queue.name}:_clocks`, shift, tenant);
  await queue.addMany(jobsOf('c', 20));
  const [, score] = await connection.zrange(prioritized, '-1', '-1', 'WITHSCORES');
  expect(Number(score) / 2 ** 32).toBeLessThan(100 * 32);
  await worker.serve(60);
  for (const tenant of ['a', 'b', 'c']) expect(worker.turnsOf(tenant)).toHaveLength(20);
});

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
