/** The pool that a batch runs on is asked for under its lease; what was admitted meanwhile is never left behind. */
import { afterEach, expect, test } from 'vitest';
import { Batcher } from '../../../src/runtime/batches/batcher.ts';
import type { SessionPool } from '../../../src/runtime/engine.ts';
import { DoublePool } from '../engine-double.ts';
import { turn } from '../manual-clock.ts';
import { expectNothingHeld, failure, manager, model, watch } from '../slots/slots-fixture.ts';
import { segment } from './batcher-fixture.ts';

afterEach(expectNothingHeld);

const LIMITS = { maxItems: 2, maxAudioSeconds: 120, maxWaitMs: 0 };

/** A batcher whose pools come, or fail, when the test says so. */
function cold(slotCount: number) {
  const { clock, slots } = model(slotCount);
  const asked: { resolve(pool: SessionPool): void; reject(error: Error): void }[] = [];
  const pool = () =>
    new Promise<SessionPool>((resolve, reject) => {
      asked.push({ resolve, reject });
    });
  const batcher = new Batcher({ label: 'cold', clock, slots, pool, limits: LIMITS });
  return { slots, batcher, asked, loaded: new DoublePool(slotCount, 1) };
}

test('a pool that takes fewer at once gets what was admitted in turn, all of it before a manager', async () => {
  const { slots, batcher, asked, loaded } = cold(1);
  const older = [1, 2].map((at) => watch(batcher.submit(segment('A', at))));
  await turn();
  const managing = watch(slots.acquire(manager()));
  const newer = watch(batcher.submit(segment('B', 3)));
  batcher.configure({ ...LIMITS, maxItems: 1 });
  asked[0]?.resolve(loaded);
  await turn();
  expect(loaded.runs.map(({ items }) => items.length)).toEqual([1]);
  loaded.runs[0]?.finish();
  await turn();
  expect([loaded.runs.length, managing.settled]).toEqual([2, false]);
  loaded.runs[1]?.finish();
  await turn();
  expect(older.map(({ settled }) => settled)).toEqual([true, true]);
  expect([managing.settled, newer.settled]).toEqual([true, false]);
  managing.value?.release();
  await turn();
  asked[1]?.resolve(loaded);
  await turn();
  loaded.runs[2]?.finish();
  await turn();
  expect(newer.settled).toBe(true);
});

test('a pool that fails ends what was admitted for it, and nothing else', async () => {
  const { batcher, asked, loaded } = cold(2);
  const first = [1, 2].map((at) => watch(batcher.submit(segment('A', at))));
  await turn();
  const second = watch(batcher.submit(segment('B', 3)));
  await turn();
  asked[0]?.reject(new Error('no memory'));
  await turn();
  expect(first.map(({ error }) => error)).toEqual(
    first.map(() => failure('INTERNAL', 'no memory')),
  );
  expect(second.settled).toBe(false);
  asked[1]?.resolve(loaded);
  await turn();
  loaded.runs[0]?.finish();
  await turn();
  expect(second.value?.text).toBe('1.1:48000');
  expect(batcher.idle).toBe(true);
});
