/** Seeded disorder: submits, cancels, managers, native ends and time in any order; what must hold holds throughout. */
import { afterEach, expect, test } from 'vitest';
import { batching, expectNothingQueued, segment } from './batches/batcher-fixture.ts';
import { turn } from './manual-clock.ts';
import { randomness } from './randomness.ts';
import { expectNothingHeld, manager, type Seen } from './slots/slots-fixture.ts';

afterEach(() => {
  expectNothingQueued();
  expectNothingHeld();
});

async function disorder(seed: number, slotCount: number): Promise<void> {
  const { pick } = randomness(seed);
  const { batcher, clock, slots, submit, pool } = batching(slotCount, { maxItems: 3 });
  const ended = new Set<unknown>();
  const segments: Seen<unknown>[] = [];
  const cancels: AbortController[] = [];
  /** Managers joined so far, and of how many the turn has come: a segment may start only between its two. */
  let joined = 0;
  let served = 0;
  const wrongSide: string[] = [];
  const managers: Promise<void>[] = [];

  const add = (): void => {
    const cancel = new AbortController();
    const barrier = joined;
    const onStart = (): void => {
      if (served !== barrier) wrongSide.push(`started after ${served} managers, not ${barrier}`);
    };
    const job = 'ABCD'.charAt(pick(4));
    const each = segment(job, segments.length, {
      onStart,
      priority: pick(2),
      alone: pick(8) === 0,
      key: pick(4) === 0 ? 'other' : 'asr',
      jobRemainingSeconds: 10 + pick(100),
    });
    cancels.push(cancel);
    segments.push(submit(each, { signal: cancel.signal, busyTimeoutMs: pick(3) * 400 }));
  };
  const manage = async (): Promise<void> => {
    joined += 1;
    using _lease = await slots.acquire(manager());
    expect(slots.state()).toMatchObject({ active: 0, exclusive: true });
    await turn();
    served += 1;
  };
  const endOne = (): void => {
    const running = pool.runs.filter((run) => !ended.has(run));
    const run = running[pick(running.length)];
    if (!run) return;
    ended.add(run);
    if (pick(6) === 0) run.fail(new Error('native'));
    else run.finish();
  };

  const more = batcher.expectMore();
  const actions = [add, add, add, endOne, endOne];
  for (let step = 0; step < 400; step += 1) {
    actions[pick(actions.length)]?.();
    if (pick(12) === 0) cancels[pick(cancels.length)]?.abort();
    if (pick(25) === 0) managers.push(manage());
    if (pick(3) === 0) await turn();
    if (pick(5) === 0) await clock.advance(pick(15));
    expect(slots.state().active).toBeLessThanOrEqual(slotCount);
  }
  more.done();
  const atRest = () => {
    const { queuedItems, runningBatches } = batcher.stats();
    return queuedItems + runningBatches === 0 && served === joined;
  };
  for (let left = 2_000; left > 0 && !atRest(); left -= 1) {
    endOne();
    await turn();
  }
  expect(atRest()).toBe(true);
  await Promise.all(managers);
  await turn();
  expect(wrongSide).toEqual([]);
  expect(segments.filter((each) => !each.settled)).toEqual([]);
  const { completedItems, failedItems, cancelledItems } = batcher.stats();
  expect(completedItems + failedItems + cancelledItems).toBeLessThanOrEqual(segments.length);
  expect(completedItems).toBe(segments.filter((each) => each.value !== undefined).length);
}

test.each([
  [1, 1],
  [2, 1],
  [3, 2],
  [4, 2],
  [5, 4],
  [6, 4],
])(
  'seed %i on %i slots: every segment ends once, on its side of every manager',
  async (seed, n) => {
    await disorder(seed, n);
  },
);
