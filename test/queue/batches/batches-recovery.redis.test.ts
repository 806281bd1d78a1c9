import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { NewItem } from '../../../src/queue/batches/batches.ts';
import { TenantRuleStore } from '../../../src/queue/tenants/tenant-rules.ts';
import { compileProgram } from '../../support/compile.ts';
import { startModelQueue } from '../../support/model-queue.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { startWorker } from '../../support/worker.ts';
import { itemsOf, numberOf, openBatches } from './batch-fixture.ts';

let redis: TestRedis;
let producer: Awaited<ReturnType<typeof compileProgram>>;
beforeAll(async () => {
  redis = await startRedis();
  producer = await compileProgram(`${import.meta.dirname}/batch-producer-program.ts`);
}, 60_000);
afterAll(async () => {
  await producer[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
});

function* breakAfter(items: readonly NewItem[], count: number): Generator<NewItem> {
  yield* items.slice(0, count);
  throw new Error('the producer broke off');
}

/** Kills the producer once it was asked for so many items. */
async function killAfter(child: ChildProcess, count: number): Promise<void> {
  child.on('message', (asked) => {
    if (Number(asked) >= count) child.kill('SIGKILL');
  });
  await once(child, 'exit');
}

test('a submission that broke off goes on where it stopped, whatever the first items became', async () => {
  await using batches = await openBatches(redis, 'resumed');
  const { store, queues } = batches;
  await using _housekeeping = await batches.housekeeping();
  const runs = new Map<number, number>();
  await using _worker = startWorker(redis.address, 'resumed', (job) => {
    const number = numberOf(job.data.input);
    runs.set(number, (runs.get(number) ?? 0) + 1);
    if (number % 50 === 7) throw new WavepoolError('INPUT_EMPTY', 'a');
  });
  const items = itemsOf(450);
  const batch = { id: 'resumed', model: 'resumed' };
  const broken = store.create({ ...batch, jobs: breakAfter(items, 250) });
  await expect(broken).rejects.toThrow('broke off');
  const open = await store.get('resumed');
  expect(open).toMatchObject({ state: 'open', counts: { total: 200 }, finishedAt: undefined });
  const queue = await queues.queueOf('resumed');
  const { items: added } = await store.items('resumed', { limit: 200 });
  await Promise.allSettled(added.map(({ id }) => queue.waitFor(id)));

  await store.create({ ...batch, jobs: items });
  expect((await batches.finished('resumed')).counts).toMatchObject({
    total: 450,
    completed: 441,
    failed: 9,
  });
  expect([...runs.values()].every((times) => times === 1)).toBe(true);
  const again = await store.create({ ...batch, jobs: items });
  expect(again).toMatchObject({ state: 'completed', counts: { total: 450 } });
});

test('a producer that is killed leaves a batch that another one completes', async () => {
  const { address } = redis;
  if (address.kind !== 'socket') throw new TypeError('the private server has a socket');
  await using batches = await openBatches(redis, 'killed');
  const { store } = batches;
  await using _housekeeping = await batches.housekeeping();
  await killAfter(fork(producer.path, [address.path, 'killed', 'killed']), 1_000);
  const left = await store.get('killed');
  expect(left.state).toBe('open');
  expect(left.counts.total).toBeGreaterThanOrEqual(800);

  const total = left.counts.total + 500;
  const whole = await store.create({ id: 'killed', model: 'killed', jobs: itemsOf(total) });
  expect(whole).toMatchObject({ state: 'running', counts: { total, waiting: total } });
  const numbers: number[] = [];
  await using _worker = startWorker(address, 'killed', (job) => {
    numbers.push(numberOf(job.data.input));
  });
  expect((await batches.finished('killed')).counts).toMatchObject({ total, completed: total });
  expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: total }, (_, at) => at));
}, 60_000);

test('a limited tenant whose producer is killed loses no job, and never has more running than it may', async () => {
  const { address } = redis;
  if (address.kind !== 'socket') throw new TypeError('the private server has a socket');
  const rules = new TenantRuleStore(await redis.connection());
  await rules.set('default', { concurrency: 2 });
  await using batches = await openBatches(redis, 'limited', { idleMs: 1 });
  await killAfter(fork(producer.path, [address.path, 'limited', 'limited']), 300);
  const { total } = (await batches.store.get('limited')).counts;
  let running = 0;
  let most = 0;
  const numbers: number[] = [];
  await using _worker = await startModelQueue(address, 'limited', 8, async ({ data }) => {
    most = Math.max(most, ++running);
    numbers.push(numberOf(data.input));
    await nextTurn();
    running -= 1;
  });
  // Another producer finds all of them there.
  const whole = await batches.store.create({
    id: 'limited',
    model: 'limited',
    jobs: itemsOf(total),
  });
  await using _housekeeping = await batches.housekeeping();
  const { counts } = await batches.finished('limited');
  await rules.remove('default');
  expect(whole.counts.total).toBe(total);
  expect(counts).toMatchObject({ total, completed: total });
  expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: total }, (_, at) => at));
  expect(most).toBe(2);
}, 60_000);

test('a batch whose producer is never heard of again finishes with what it has, and may go on later', async () => {
  await using batches = await openBatches(redis, 'silent', { idleMs: 1 });
  const { store } = batches;
  await using _worker = startWorker(redis.address, 'silent', () => undefined);
  const items = itemsOf(260);
  const broken = store.create({ id: 'silent', model: 'silent', jobs: breakAfter(items, 120) });
  await expect(broken).rejects.toThrow('broke off');
  await using _housekeeping = await batches.housekeeping();
  expect(await batches.finished('silent')).toMatchObject({
    state: 'completed',
    counts: { total: 100, completed: 100 },
  });
  expect(await store.get('silent')).toMatchObject({ interrupted: true });

  await using patient = await openBatches(redis, 'silent');
  await patient.store.create({ id: 'silent', model: 'silent', jobs: items });
  expect((await batches.finished('silent')).counts).toMatchObject({ total: 260, completed: 260 });
  expect(await store.get('silent')).toMatchObject({ interrupted: false, state: 'completed' });
});

test('items with keys are known again when others have come between them', async () => {
  await using batches = await openBatches(redis, 'keyed');
  const { store } = batches;
  const keyed = (names: string): NewItem[] =>
    [...names].map((name) => ({ key: name, input: { kind: 'path', path: `/${name}.wav` } }));
  const batch = { id: 'keyed', model: 'keyed' };
  await expect(store.create({ ...batch, jobs: breakAfter(keyed('bd'), 2) })).rejects.toThrow();
  // Nothing of the chunk that broke off was added.
  expect((await store.get('keyed')).counts.total).toBe(0);
  const aborted = new AbortController();
  function* firstChunk(): Generator<NewItem> {
    yield* keyed('bd');
    yield* itemsOf(98);
    aborted.abort(new Error('gone'));
    yield* keyed('z');
  }
  const gone = store.create({ ...batch, jobs: firstChunk(), signal: aborted.signal });
  await expect(gone).rejects.toThrow('gone');
  await store.create({ ...batch, jobs: keyed('abcdd') });
  expect((await store.get('keyed')).counts.total).toBe(102);
});

test('the same id for another model is a conflict, and keys that stand for places are refused', async () => {
  await using batches = await openBatches(redis, 'model-a');
  await using others = await openBatches(redis, 'model-b');
  await batches.store.create({ id: 'shared', model: 'model-a', jobs: [] });
  await expect(
    others.store.create({ id: 'shared', model: 'model-b', jobs: [] }),
  ).rejects.toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' });
  await expect(
    batches.store.create({ model: 'model-a', jobs: itemsOf(1, { key: '7' }) }),
  ).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
});

test('a new batch under the id of a forgotten one has jobs of its own', async () => {
  await using batches = await openBatches(redis, 'reborn');
  const { store } = batches;
  await using _housekeeping = await batches.housekeeping();
  let fails = true;
  await using _worker = startWorker(redis.address, 'reborn', () => {
    if (fails) throw new WavepoolError('INPUT_EMPTY', 'a');
  });
  await store.create({ id: 'reborn', model: 'reborn', jobs: itemsOf(3) });
  expect((await batches.finished('reborn')).counts).toMatchObject({ failed: 3 });
  // The event is told a moment before BullMQ is done with the parent.
  await expect.poll(() => store.remove('reborn')).toBe(true);
  fails = false;
  await store.create({ id: 'reborn', model: 'reborn', jobs: itemsOf(3) });
  expect((await batches.finished('reborn')).counts).toMatchObject({ completed: 3, failed: 0 });
});

test('many housekeepers finish each batch', async () => {
  await using batches = await openBatches(redis, 'shared-house');
  await using _one = await batches.housekeeping();
  await using _two = await batches.housekeeping();
  await using _worker = startWorker(redis.address, 'shared-house', () => undefined);
  const created = await Promise.all(
    [1, 2, 3, 4, 5].map(() => batches.store.create({ model: 'shared-house', jobs: itemsOf(7) })),
  );
  for (const { id } of created) {
    expect((await batches.finished(id)).counts).toMatchObject({ total: 7, completed: 7 });
  }
});

test('other work of the process gets its turn between the chunks of 20 000 items', async () => {
  await using batches = await openBatches(redis, 'large');
  let turns = 0;
  let isDone = false;
  const countTurns = (): void => {
    turns += 1;
    if (!isDone) setImmediate(countTurns);
  };
  countTurns();
  let longest = 0;
  function* items(): Generator<NewItem> {
    let turn = turns;
    let inOneTurn = 0;
    for (const item of itemsOf(20_000)) {
      inOneTurn = turns === turn ? inOneTurn + 1 : 1;
      turn = turns;
      longest = Math.max(longest, inOneTurn);
      yield item;
    }
  }
  const view = await batches.store.create({ model: 'large', jobs: items() });
  isDone = true;
  expect(view.counts).toMatchObject({ total: 20_000, waiting: 20_000 });
  expect(longest).toBeLessThanOrEqual(100);
}, 60_000);
