import { afterEach, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { result } from '../engine-double.ts';
import { turn } from '../manual-clock.ts';
import { expectNothingHeld, failure, manager, watch } from '../slots/slots-fixture.ts';
import { batching, expectNothingQueued, segment } from './batcher-fixture.ts';

afterEach(() => {
  expectNothingQueued();
  expectNothingHeld();
});

describe('forming batches', () => {
  test('segments of several jobs that arrive together share one batch', async () => {
    const { submit, run, batches } = batching(1);
    const seen = [submit(segment('A', 1)), submit(segment('B', 2)), submit(segment('C', 3))];
    await turn();
    expect(batches()).toEqual([[1, 2, 3]]);
    run(0).finish();
    await turn();
    expect(seen.map((each) => each.value?.text)).toEqual(['0.1:16000', '0.1:32000', '0.1:48000']);
  });

  test('a batch is formed when the slot is granted, not when its first segment arrived', async () => {
    const { submit, run, batches } = batching(1);
    submit(segment('A', 1));
    await turn();
    submit(segment('A', 2));
    submit(segment('B', 3, { priority: 9 }));
    await turn();
    submit(segment('C', 4, { priority: 5 }));
    run(0).finish();
    await turn();
    expect(batches()).toEqual([[1], [2, 4, 3]]);
    run(1).finish();
    await turn();
  });

  test('while more is coming, a segment waits for company until its wait is over', async () => {
    const { batcher, clock, submit, run, batches } = batching(1);
    using _more = batcher.expectMore();
    submit(segment('A', 1));
    await clock.advance(10);
    submit(segment('B', 2));
    await clock.advance(9);
    expect(batches()).toEqual([]);
    await clock.advance(1);
    expect(batches()).toEqual([[1, 2]]);
    run(0).finish();
    await turn();
  });

  test('a full batch starts at once, and the rest waits on', async () => {
    const { batcher, clock, submit, run, batches } = batching(2);
    using _more = batcher.expectMore();
    for (let at = 1; at <= 5; at += 1) submit(segment('A', at));
    await turn();
    expect(batches()).toEqual([[1, 2, 3, 4]]);
    await clock.advance(20);
    expect(batches()).toEqual([[1, 2, 3, 4], [5]]);
    run(0).finish();
    run(1).finish();
    await turn();
  });

  test('nobody waits for company once the last job has said that it is done', async () => {
    const { batcher, submit, run, batches } = batching(1);
    const first = batcher.expectMore();
    const second = batcher.expectMore();
    submit(segment('A', 1));
    first.done();
    first.done();
    await turn();
    expect(batches()).toEqual([]);
    second.done();
    await turn();
    expect(batches()).toEqual([[1]]);
    run(0).finish();
    await turn();
  });

  test('segments with different keys never share a batch', async () => {
    const { submit, run, batches } = batching(2);
    submit(segment('A', 1));
    submit(segment('A', 2, { key: 'other' }));
    submit(segment('B', 3));
    await turn();
    expect(batches()).toEqual([[1, 3], [2]]);
    run(0).finish();
    run(1).finish();
    await turn();
  });

  test('a key that still waits for company is not run early in the slot of another', async () => {
    const { batcher, clock, submit, run, batches } = batching(1);
    using _more = batcher.expectMore();
    submit(segment('A', 1, { key: 'other' }));
    for (let at = 2; at <= 5; at += 1) submit(segment('B', at));
    await turn();
    expect(batches()).toEqual([[2, 3, 4, 5]]);
    run(0).finish();
    await clock.advance(20);
    expect(batches()).toEqual([[2, 3, 4, 5], [1]]);
    run(1).finish();
    await turn();
  });

  test('a segment that must run alone gets a batch of one', async () => {
    const { submit, run, batches } = batching(1);
    submit(segment('A', 1));
    submit(segment('B', 2, { alone: true }));
    submit(segment('C', 3));
    for (const index of [0, 1]) {
      await turn();
      run(index).finish();
    }
    await turn();
    expect(batches()).toEqual([[1, 3], [2]]);
  });

  test('a short job gets its turn beside a long one that came first', async () => {
    const { submit, run, batches } = batching(1, { maxItems: 2 });
    for (let at = 1; at <= 4; at += 1) submit(segment('A', at, { jobRemainingSeconds: 900 }));
    submit(segment('B', 9, { jobRemainingSeconds: 5 }));
    for (const index of [0, 1, 2]) {
      await turn();
      run(index).finish();
    }
    await turn();
    expect(batches()).toEqual([[1, 9], [2, 3], [4]]);
  });

  test('each member hears which slot picked it up before native code runs', async () => {
    const { submit, run, pool } = batching(2);
    const heard: [number, number][] = [];
    const onStart = (slot: number) => heard.push([slot, pool.runs.length]);
    submit(segment('A', 1, { onStart }));
    await turn();
    submit(segment('B', 2, { onStart }));
    await turn();
    expect(heard).toEqual([
      [0, 0],
      [1, 1],
    ]);
    run(0).finish();
    run(1).finish();
    await turn();
  });

  test('new limits hold from the next batch on', async () => {
    const { batcher, submit, run, batches } = batching(1);
    for (let at = 1; at <= 3; at += 1) submit(segment('A', at));
    batcher.configure({ maxItems: 2, maxAudioSeconds: 120, maxWaitMs: 0 });
    await turn();
    run(0).finish();
    await turn();
    run(1).finish();
    await turn();
    expect(batches()).toEqual([[1, 2], [3]]);
  });
});

describe('outcomes', () => {
  test('a member gets its result as soon as it has ended, the lease goes back at the end', async () => {
    const { submit, run, slots } = batching(1);
    const seen = [submit(segment('A', 1)), submit(segment('B', 2))];
    await turn();
    run(0).report(1);
    await turn();
    expect(seen.map((each) => each.settled)).toEqual([false, true]);
    expect(slots.state().active).toBe(1);
    run(0).finish();
    await turn();
    expect(seen[0]?.value?.text).toBe('0.1:16000');
    expect(slots.state().active).toBe(0);
  });

  test('one bad member fails by itself', async () => {
    const { submit, run } = batching(1);
    const seen = [submit(segment('A', 1)), submit(segment('B', 2))];
    await turn();
    run(0).report(0, { ok: false, error: new WavepoolError('INVALID_REQUEST', 'bad range') });
    run(0).finish();
    await turn();
    expect(seen[0]?.error).toEqual(failure('INVALID_REQUEST', 'bad range'));
    expect(seen[1]?.value?.text).toBe('0.1:32000');
  });

  test.each([1, 3])('%i outcomes for two members fail the batch, not the next one', async (n) => {
    const { submit, run } = batching(1);
    const seen = [submit(segment('A', 1)), submit(segment('B', 2))];
    await turn();
    run(0).finishWith(Array.from({ length: n }, () => ({ ok: true, result: result('whose?') })));
    await turn();
    const expected = failure('INTERNAL', `${n} of 2`);
    expect(seen.map((each) => each.error)).toEqual([expected, expected]);
    const next = submit(segment('C', 3));
    await turn();
    run(1).finish();
    await turn();
    expect(next.value?.text).toBe('0.2:48000');
  });

  test('an outcome for a member that does not exist fails the batch', async () => {
    const { submit, run } = batching(1);
    const seen = submit(segment('A', 1));
    await turn();
    run(0).report(7);
    run(0).finish();
    await turn();
    expect(seen.error).toEqual(failure('INTERNAL', '[7]'));
  });

  test('a batch that fails as a whole fails each of its members and frees the slot', async () => {
    const { submit, run, slots } = batching(1);
    const seen = [submit(segment('A', 1)), submit(segment('B', 2))];
    await turn();
    run(0).fail(new WavepoolError('INSUFFICIENT_MEMORY', 'graph'));
    await turn();
    const expected = failure('INSUFFICIENT_MEMORY', 'graph');
    expect(seen.map((each) => each.error)).toEqual([expected, expected]);
    expect(slots.state().active).toBe(0);
  });

  test('a slot that native code refuses fails the batch and is given back', async () => {
    const { submit, pool, slots } = batching(1);
    const stray = pool.run(0, []);
    const seen = submit(segment('A', 1));
    await turn();
    expect(seen.error).toEqual(failure('SLOT_BUSY'));
    expect(slots.state().active).toBe(0);
    expect(stray).toBe(pool.runs[0]);
  });

  test('a listener that throws fails its own segment only', async () => {
    const { submit, run, batches } = batching(1);
    const onStart = () => {
      throw new Error('listener');
    };
    const seen = [submit(segment('A', 1, { onStart })), submit(segment('B', 2))];
    await turn();
    run(0).finish();
    await turn();
    expect(batches()).toEqual([[2]]);
    expect(seen[0]?.error).toEqual(failure('INTERNAL', 'onStart'));
    expect(seen[1]?.value?.text).toBe('0.1:32000');
  });

  test('an empty range is refused', async () => {
    const { submit } = batching(1);
    const { task } = segment('A', 1);
    const seen = submit(segment('A', 1, { task: { ...task, endSample: task.startSample } }));
    await turn();
    expect(seen.error).toEqual(failure('INVALID_REQUEST', 'empty segment'));
  });

  test('stats count what waits, what runs and what has ended', async () => {
    const { batcher, clock, submit, run } = batching(1, { maxItems: 2 });
    for (let at = 1; at <= 3; at += 1) submit(segment('A', at));
    await turn();
    expect(batcher.stats()).toMatchObject({
      queuedItems: 1,
      queuedSeconds: 5,
      runningBatches: 1,
      runningItems: 2,
      batchSizes: [],
    });
    await clock.advance(300);
    run(0).report(0, { ok: false, error: new WavepoolError('INTERNAL', 'x') });
    run(0).finish();
    await clock.advance(200);
    run(1).finish();
    await turn();
    expect(batcher.stats()).toEqual({
      queuedItems: 0,
      queuedSeconds: 0,
      runningBatches: 0,
      runningItems: 0,
      batchSizes: [1, 1],
      completedItems: 2,
      failedItems: 1,
      cancelledItems: 0,
      audioSeconds: 10,
      busyMs: 500,
    });
  });
});

describe('managers', () => {
  test('segments held back for company keep their place before a manager', async () => {
    const { batcher, slots, submit, run, batches } = batching(1, { maxItems: 2 });
    using _more = batcher.expectMore();
    for (let at = 1; at <= 3; at += 1) submit(segment('A', at));
    await turn();
    const managing = watch(slots.acquire(manager()));
    submit(segment('B', 8));
    submit(segment('B', 9));
    run(0).finish();
    await turn();
    expect(batches()).toEqual([[1, 2], [3]]);
    expect(managing.settled).toBe(false);
    run(1).finish();
    await turn();
    expect(managing.settled).toBe(true);
    expect(batches()).toHaveLength(2);
    managing.value?.release();
    await turn();
    expect(batches()).toEqual([[1, 2], [3], [8, 9]]);
    run(2).finish();
    await turn();
  });

  test('a model whose segments are held back is not taken by tryAcquire', async () => {
    const { batcher, clock, slots, submit, run } = batching(1);
    using _more = batcher.expectMore();
    submit(segment('A', 1));
    expect(slots.tryAcquire()).toBeUndefined();
    await clock.advance(20);
    run(0).finish();
    await turn();
  });

  test('two managers with segments between them take turns in the order of joining', async () => {
    const { slots, submit, run, batches } = batching(2);
    submit(segment('A', 1));
    await turn();
    const first = watch(slots.acquire(manager()));
    submit(segment('A', 2));
    const second = watch(slots.acquire(manager()));
    submit(segment('A', 3));
    run(0).finish();
    await turn();
    first.value?.release();
    await turn();
    expect(batches()).toEqual([[1], [2]]);
    expect(second.settled).toBe(false);
    run(1).finish();
    await turn();
    second.value?.release();
    await turn();
    expect(batches()).toEqual([[1], [2], [3]]);
    run(2).finish();
    await turn();
  });
});
