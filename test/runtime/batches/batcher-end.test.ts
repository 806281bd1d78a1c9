/** How waiting and running segments end early: cancelled, timed out, or shut down. */
import { afterEach, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { turn } from '../manual-clock.ts';
import { expectNothingHeld, failure, manager, watch } from '../slots/slots-fixture.ts';
import { batching, expectNothingQueued, segment } from './batcher-fixture.ts';

afterEach(() => {
  expectNothingQueued();
  expectNothingHeld();
});

describe('cancelling', () => {
  test('a queued segment leaves at once and is in no batch', async () => {
    const { batcher, slots, submit, run, batches } = batching(1);
    submit(segment('A', 1));
    await turn();
    const cancel = new AbortController();
    const queued = submit(segment('B', 2), { signal: cancel.signal });
    cancel.abort(new Error('no longer wanted'));
    expect(batcher.stats()).toMatchObject({ queuedItems: 0, cancelledItems: 1 });
    expect(slots.state().waitingRequests).toBe(0);
    await turn();
    expect(queued.error).toEqual(failure('CANCELLED', 'no longer wanted'));
    run(0).finish();
    await turn();
    expect(batches()).toEqual([[1]]);
  });

  test('a segment cancelled after its slot was granted is left out of the batch', async () => {
    const { submit, run, batches } = batching(1);
    const cancel = new AbortController();
    const seen = submit(segment('A', 1), { signal: cancel.signal });
    submit(segment('B', 2));
    cancel.abort();
    await turn();
    expect(seen.error).toEqual(failure('CANCELLED'));
    expect(batches()).toEqual([[2]]);
    run(0).finish();
    await turn();
  });

  test('a slot granted for segments that are all gone is given back', async () => {
    const { submit, slots, batches } = batching(1);
    const cancel = new AbortController();
    submit(segment('A', 1), { signal: cancel.signal });
    cancel.abort();
    await turn();
    expect(slots.state().active).toBe(0);
    expect(batches()).toEqual([]);
  });

  test('a running segment is dropped by native code, its neighbour is not', async () => {
    const { batcher, submit, run, slots } = batching(1);
    const cancel = new AbortController();
    const seen = [submit(segment('A', 1)), submit(segment('B', 2), { signal: cancel.signal })];
    await turn();
    cancel.abort(new WavepoolError('JOB_TIMEOUT', '900 s'));
    await turn();
    expect(run(0).cancelled).toEqual([1]);
    expect(seen[1]?.settled).toBe(false);
    expect(slots.state().active).toBe(1);
    run(0).finish();
    await turn();
    expect(seen[0]?.value?.text).toBe('0.1:16000');
    expect(seen[1]?.error).toEqual(failure('JOB_TIMEOUT', '900 s'));
    expect(batcher.stats()).toMatchObject({ completedItems: 1, cancelledItems: 1, failedItems: 0 });
  });

  test('a segment that had ended before the cancel reached it keeps its result', async () => {
    const { submit, run } = batching(1);
    const cancel = new AbortController();
    const seen = submit(segment('A', 1), { signal: cancel.signal });
    await turn();
    cancel.abort();
    run(0).report(0);
    run(0).finish();
    await turn();
    expect(seen.value?.text).toBe('0.1:16000');
  });

  test('a segment cancelled by its own start listener is cancelled in native code', async () => {
    const { submit, run } = batching(1);
    const cancel = new AbortController();
    const onStart = () => cancel.abort();
    const seen = submit(segment('A', 1, { onStart }), { signal: cancel.signal });
    await turn();
    expect(run(0).cancelled).toEqual([0]);
    run(0).finish();
    await turn();
    expect(seen.error).toEqual(failure('CANCELLED'));
  });

  test('a segment whose signal was aborted before is never queued', async () => {
    const { batcher, submit } = batching(1);
    const seen = submit(segment('A', 1), { signal: AbortSignal.abort() });
    expect(batcher.stats().queuedItems).toBe(0);
    await turn();
    expect(seen.error).toEqual(failure('CANCELLED'));
  });

  test('the last segment before a manager, cancelled, lets the manager proceed', async () => {
    const { submit, run, slots } = batching(1);
    submit(segment('A', 1));
    await turn();
    const cancel = new AbortController();
    submit(segment('A', 2), { signal: cancel.signal });
    const managing = watch(slots.acquire(manager()));
    cancel.abort();
    run(0).finish();
    await turn();
    expect(managing.settled).toBe(true);
    managing.value?.release();
  });
});

describe('the busy timeout', () => {
  test('each segment waits for a slot as long as it may, and no longer', async () => {
    const { clock, submit, run, batches } = batching(1);
    submit(segment('A', 1));
    await turn();
    const [short, long, endless] = [
      submit(segment('B', 2), { busyTimeoutMs: 50 }),
      submit(segment('B', 3), { busyTimeoutMs: 80 }),
      submit(segment('B', 4), { busyTimeoutMs: 0 }),
    ];
    await clock.advance(50);
    expect([short.settled, long.settled, endless.settled]).toEqual([true, false, false]);
    expect(short.error).toEqual(failure('BUSY_TIMEOUT', 'job B'));
    await clock.advance(29);
    run(0).finish();
    await turn();
    expect(batches()).toEqual([[1], [3, 4]]);
    run(1).finish();
    await turn();
  });

  test('it ends with the pick-up: a long run does not time out', async () => {
    const { clock, submit, run } = batching(1);
    const seen = submit(segment('A', 1), { busyTimeoutMs: 50 });
    await clock.advance(1_000);
    run(0).finish();
    await turn();
    expect(seen.value?.text).toBe('0.1:16000');
  });

  test('a newcomer is refused at once when all running batches are overdue for it', async () => {
    const { clock, submit, run, batcher } = batching(1);
    submit(segment('A', 1));
    await clock.advance(51);
    const seen = submit(segment('B', 2), { busyTimeoutMs: 50 });
    await turn();
    expect(seen.error).toEqual(failure('BUSY_OVERDUE', 'all active slots are overdue'));
    expect(batcher.stats().queuedItems).toBe(0);
    run(0).finish();
    await turn();
  });
});

describe('shutting down', () => {
  test('drain refuses new segments and lets the queued and the running ones end', async () => {
    const { batcher, submit, run } = batching(1);
    const running = submit(segment('A', 1));
    await turn();
    using _more = batcher.expectMore();
    const queued = submit(segment('B', 2));
    const drained = watch(batcher.drain());
    const late = submit(segment('C', 3));
    await turn();
    expect(late.error).toEqual(failure('SHUTTING_DOWN', 'double'));
    run(0).finish();
    await turn();
    expect([running.settled, drained.settled]).toEqual([true, false]);
    run(1).finish();
    await turn();
    expect(queued.value?.text).toBe('0.2:32000');
    expect(drained).toMatchObject({ settled: true });
    expect(drained.error).toBeUndefined();
  });

  test('a drain that its signal gives up on leaves the work running', async () => {
    const { batcher, submit, run } = batching(1);
    const running = submit(segment('A', 1));
    await turn();
    const cancel = new AbortController();
    const drained = watch(batcher.drain(cancel.signal));
    cancel.abort();
    await turn();
    expect(drained.error).toEqual(failure('CANCELLED'));
    expect(running.settled).toBe(false);
    run(0).finish();
    await turn();
    expect(running.value?.text).toBe('0.1:16000');
  });

  test('close fails what is queued and waits until native code has returned', async () => {
    const { batcher, submit, run, batches } = batching(1);
    const running = submit(segment('A', 1));
    await turn();
    const queued = submit(segment('B', 2));
    const closed = [watch(batcher.close()), watch(batcher.close())];
    await turn();
    expect(queued.error).toEqual(failure('SHUTTING_DOWN'));
    expect(closed.map((each) => each.settled)).toEqual([false, false]);
    run(0).finish();
    await turn();
    expect(running.value?.text).toBe('0.1:16000');
    expect(closed.map((each) => each.settled)).toEqual([true, true]);
    expect(batches()).toEqual([[1]]);
  });
});

describe('pool contract on the double', () => {
  test('P5 four batches of two at once: each from its own session, nothing left afterwards', async () => {
    const { batcher, slots, submit, run } = batching(4, { maxItems: 2 });
    using _more = batcher.expectMore();
    const seen = Array.from({ length: 8 }, (_, at) => submit(segment('A', at)));
    await turn();
    expect(slots.state().active).toBe(4);
    expect(slots.tryAcquire()).toBeUndefined();
    for (const index of [3, 1, 0, 2]) run(index).finish();
    await turn();
    expect(seen.map((each) => each.value?.text.split(':')[0])).toEqual([
      '0.1',
      '0.1',
      '1.1',
      '1.1',
      '2.1',
      '2.1',
      '3.1',
      '3.1',
    ]);
    expect(slots.state().active).toBe(0);
  });

  test('P6 two interleaved streams keep their slots, and so their own sessions', async () => {
    const { slots, pool } = batching(2);
    const { task } = segment('A', 1);
    const stream = async (chunks: number): Promise<string[]> => {
      using lease = await slots.acquireRun({ timeoutMs: 0, label: 'stream' });
      const texts: string[] = [];
      for (let chunk = 0; chunk < chunks; chunk += 1) {
        const native = pool.run(lease.slot, [task]);
        await turn();
        pool.runs.find((each) => each === native)?.finish();
        const [outcome] = await native.done;
        if (outcome?.ok) texts.push(outcome.result.text);
      }
      return texts;
    };
    expect(await Promise.all([stream(2), stream(1)])).toEqual([
      ['0.1:16000', '0.2:16000'],
      ['1.1:16000'],
    ]);
  });

  test('P7 a stream that an exception ends gives its slot to the next', async () => {
    const { slots } = batching(1);
    const aborted = async (): Promise<void> => {
      using _lease = await slots.acquireRun({ timeoutMs: 0, label: 'stream' });
      await turn();
      throw new RangeError('sink failed');
    };
    const first = aborted();
    const second = watch(slots.acquireRun({ timeoutMs: 0, label: 'stream' }));
    await expect(first).rejects.toThrow(RangeError);
    await turn();
    expect(second.value?.slot).toBe(0);
    second.value?.release();
  });
});
