import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { BatchItem } from '../../../src/queue/batches/batch-items.ts';
import type { NewItem } from '../../../src/queue/batches/batches.ts';
import { toQueueError } from '../../../src/queue/jobs/failures.ts';
import { batchItemsKey, batchTimesKey } from '../../../src/queue/redis/queue-names.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { startManualWorker, startWorker } from '../../support/worker.ts';
import { itemsOf, numberOf, openBatches } from './batch-fixture.ts';

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

const NOTHING = { total: 0, waiting: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };

test('a batch counts every outcome exactly, with attempts that failed on the way', async () => {
  await using batches = await openBatches(redis, 'mixed');
  const { store } = batches;
  await using _housekeeping = await batches.housekeeping();
  const created = await store.create({ name: 'A', model: 'mixed', jobs: itemsOf(30) });
  expect(created).toMatchObject({
    name: 'A',
    state: 'running',
    counts: { ...NOTHING, total: 30, waiting: 30 },
    finishedAt: undefined,
  });
  await using _worker = startWorker(redis.address, 'mixed', (job) => {
    const number = numberOf(job.data.input);
    if (number % 10 === 3) throw new WavepoolError('INPUT_EMPTY', 'a');
    if (number % 10 === 7) throw new WavepoolError('CANCELLED', 'a');
    if (number === 5 && job.attemptsMade === 0) throw new WavepoolError('BUSY_TIMEOUT', 'a');
  });
  const counts = { ...NOTHING, total: 30, completed: 24, failed: 3, cancelled: 3 };
  expect(await batches.finished(created.id)).toEqual({
    type: 'batch.finished',
    at: expect.any(String),
    model: 'mixed',
    batchId: created.id,
    tenant: 'default',
    state: 'completed',
    counts,
    finishedAt: expect.any(String),
  });
  const view = await store.get(created.id);
  expect(view).toMatchObject({ state: 'completed', counts, interrupted: false });
  expect(view.finishedAt).toBeGreaterThanOrEqual(view.createdAt);
});

test('a batch without items completes', async () => {
  await using batches = await openBatches(redis, 'empty');
  await using _ = await batches.housekeeping();
  const { id } = await batches.store.create({ model: 'empty', jobs: [] });
  expect(await batches.finished(id)).toMatchObject({ state: 'completed', counts: NOTHING });
});

test('a running item is told from those that wait', async () => {
  await using batches = await openBatches(redis, 'running');
  const { id } = await batches.store.create({ model: 'running', jobs: itemsOf(3) });
  await using worker = startManualWorker(redis.address, 'running');
  const { job, token } = await worker.take();
  expect((await batches.store.get(id)).counts).toMatchObject({ waiting: 2, running: 1 });
  await job.moveToFailed(toQueueError(new WavepoolError('INPUT_EMPTY', 'a')), token);
});

test('a batch does not finish while items are added, however many have ended', async () => {
  await using batches = await openBatches(redis, 'gated');
  const { store, queues } = batches;
  const queue = await queues.queueOf('gated');
  await using _housekeeping = await batches.housekeeping();
  await using _worker = startWorker(redis.address, 'gated', () => undefined);
  let states: unknown[] = [];
  async function* jobs(): AsyncGenerator<NewItem> {
    yield* itemsOf(100);
    // The first chunk has been added by now, and all of it ends before there is more.
    const { items } = await store.items('gated', { limit: 200 });
    for (const { id } of items) await queue.waitFor(id);
    const { state, counts, finishedAt } = await store.get('gated');
    states = [state, counts.completed, finishedAt];
    yield* itemsOf(50);
  }
  await store.create({ id: 'gated', model: 'gated', jobs: jobs() });
  expect(states).toEqual(['open', 100, undefined]);
  expect((await batches.finished('gated')).counts).toEqual({
    ...NOTHING,
    total: 150,
    completed: 150,
  });
});

test('cancelling ends waiting items at once and running ones with their worker', async () => {
  await using batches = await openBatches(redis, 'cancelled');
  const { store } = batches;
  await using _ = await batches.housekeeping();
  const { id } = await store.create({ model: 'cancelled', jobs: itemsOf(250) });
  await using worker = startManualWorker(redis.address, 'cancelled');
  const { job, token } = await worker.take();
  expect(await store.cancel(id)).toMatchObject({
    state: 'cancelled',
    counts: { total: 250, waiting: 0, running: 1, cancelled: 249 },
    finishedAt: undefined,
  });
  await job.moveToFailed(toQueueError(new WavepoolError('CANCELLED', 'a')), token);
  expect(await batches.finished(id)).toMatchObject({
    state: 'cancelled',
    counts: { cancelled: 250, running: 0 },
  });
  expect((await store.create({ id, model: 'cancelled', jobs: itemsOf(300) })).counts.total).toBe(
    250,
  );
});

test('a batch that is cancelled while items are added takes no more of them', async () => {
  await using batches = await openBatches(redis, 'stopped');
  const { store } = batches;
  async function* jobs(): AsyncGenerator<NewItem> {
    yield* itemsOf(150);
    await store.cancel('stopped');
    yield* itemsOf(500);
  }
  const view = await store.create({ id: 'stopped', model: 'stopped', jobs: jobs() });
  expect(view).toMatchObject({
    state: 'cancelled',
    counts: { ...NOTHING, total: 100, cancelled: 100 },
  });
});

test('retrying runs the failed items only, and the batch finishes once more', async () => {
  await using batches = await openBatches(redis, 'retried');
  const { store } = batches;
  await using _housekeeping = await batches.housekeeping();
  const { id } = await store.create({ model: 'retried', jobs: itemsOf(20) });
  const runs = new Map<number, number>();
  let broken = true;
  await using _worker = startWorker(redis.address, 'retried', (job) => {
    const number = numberOf(job.data.input);
    runs.set(number, (runs.get(number) ?? 0) + 1);
    if (number === 4) throw new WavepoolError('CANCELLED', 'a');
    if (broken && number >= 15) throw new WavepoolError('INPUT_NOT_FOUND', 'a');
  });
  expect((await batches.finished(id)).counts).toMatchObject({ failed: 5, cancelled: 1 });
  broken = false;
  expect(await store.retryFailed(id)).toEqual({ retried: 5, gone: 0 });
  expect((await batches.finished(id)).counts).toEqual({
    ...NOTHING,
    total: 20,
    completed: 19,
    cancelled: 1,
  });
  expect([...runs].filter(([, times]) => times > 1).map(([number]) => number)).toEqual([
    15, 16, 17, 18, 19,
  ]);
  expect(await store.retryFailed(id)).toEqual({ retried: 0, gone: 0 });
  expect(await store.retryFailed(id, { cancelled: true })).toEqual({ retried: 1, gone: 0 });
});

test('items come page by page in the order of submission, by state when asked for', async () => {
  await using batches = await openBatches(redis, 'paged');
  const { store } = batches;
  await using _housekeeping = await batches.housekeeping();
  const { id } = await store.create({ model: 'paged', jobs: itemsOf(25) });
  await using _worker = startWorker(redis.address, 'paged', (job) => {
    if (numberOf(job.data.input) % 5 === 0) throw new WavepoolError('INPUT_EMPTY', 'a');
  });
  await batches.finished(id);
  const seen: number[] = [];
  for (let cursor: number | undefined = 0; cursor !== undefined; ) {
    const page = await store.items(id, { limit: 10, cursor });
    for (const { index, job } of page.items) {
      expect(numberOf(job?.data.input ?? { kind: '' })).toBe(index);
      seen.push(index);
    }
    cursor = page.next;
  }
  expect(seen).toEqual(Array.from({ length: 25 }, (_, at) => at));
  const failed = await store.items(id, { limit: 3, state: 'failed' });
  expect(failed.items.map(({ index, failure }) => [index, failure?.code])).toEqual([
    [0, 'INPUT_EMPTY'],
    [5, 'INPUT_EMPTY'],
    [10, 'INPUT_EMPTY'],
  ]);
  const rest = await store.items(id, { limit: 3, state: 'failed', cursor: failed.next });
  expect(rest.items.map(({ index }) => index)).toEqual([15, 20]);
  const ended: BatchItem[] = [];
  for await (const item of store.ended(id)) ended.push(item);
  expect(ended.filter(({ state }) => state === 'completed')).toHaveLength(20);
});

test('what an item became is known after the queue has dropped its job', async () => {
  await using batches = await openBatches(redis, 'dropped');
  const { store, queues } = batches;
  await using _housekeeping = await batches.housekeeping();
  const { id } = await store.create({ model: 'dropped', jobs: itemsOf(2) });
  await using _worker = startWorker(redis.address, 'dropped', (job) => {
    if (numberOf(job.data.input) === 1) throw new WavepoolError('INPUT_EMPTY', 'a');
  });
  await batches.finished(id);
  const queue = await queues.queueOf('dropped');
  const { items } = await store.items(id, { limit: 5 });
  for (const item of items) expect(await queue.remove(item.id)).toBe(true);
  expect((await store.get(id)).counts).toMatchObject({ total: 2, completed: 1, failed: 1 });
  const after = await store.items(id, { limit: 5 });
  expect(after.items).toMatchObject([
    { state: 'completed', outcome: { resultKey: `result-of-${items[0]?.id}` }, job: undefined },
    { state: 'failed', failure: { code: 'INPUT_EMPTY' }, job: undefined },
  ]);
  expect(await store.retryFailed(id)).toEqual({ retried: 0, gone: 1 });
});

test('batches are listed the latest first, and old ones are forgotten with all their keys', async () => {
  let now = 1_000;
  await using batches = await openBatches(redis, 'listed', { now: () => now });
  const { store } = batches;
  const connection = await redis.connection();
  await using housekeeping = await batches.housekeeping({ now: () => now, retentionMs: 5_000 });
  for (const id of ['l-1', 'l-2', 'l-3']) {
    await store.create({ id, tenant: 'lister', model: 'listed', jobs: [] });
    await batches.finished(id);
    now += 3_000;
  }
  await store.create({ id: 'l-4', tenant: 'lister', model: 'listed', jobs: itemsOf(1) });
  const first = await store.list({ tenant: 'lister', limit: 3 });
  expect(first.views.map(({ id }) => id)).toEqual(['l-4', 'l-3', 'l-2']);
  const second = await store.list({ tenant: 'lister', limit: 3, cursor: first.next });
  expect(second.views.map(({ id }) => id)).toEqual(['l-1']);
  expect(second.next).toBeUndefined();
  now = 10_000;
  await housekeeping.sweep();
  const left = await store.list({ tenant: 'lister', limit: 10 });
  expect(left.views.map(({ id }) => id)).toEqual(['l-4', 'l-3']);
  await expect(store.get('l-1')).rejects.toMatchObject({ code: 'BATCH_NOT_FOUND' });
  expect(
    await connection.exists(batchTimesKey(connection, 'l-1'), batchItemsKey(connection, 'l-1')),
  ).toBe(0);
  expect(await store.remove('l-4')).toBe(false);
});
