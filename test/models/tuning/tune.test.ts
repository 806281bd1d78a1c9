/** Which layouts a tuning tries, and which it takes. Speeds and time are the test's own. */
import { expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { Layout, TuningMeasurement } from '../../../src/core/evidence/tuning.ts';
import { bestOf, layoutsOf, type TuningSpace, tune } from '../../../src/models/tuning/tune.ts';

const SPACE: TuningSpace = {
  standard: { workers: 2, slots: 1, threads: 1, batch: 8 },
  fixed: {},
  admitted: 1,
  validatedBatch: 1,
  cores: 2,
  fittingWorkers: 8,
};

/** Opens anything; `speed` says how fast it is, and every measurement takes a second of the clock. */
function machine(speed: (layout: Layout, batch: number) => number) {
  let now = 0;
  let open = 0;
  const tried: string[] = [];
  return {
    tried,
    get open() {
      return open;
    },
    options: {
      budgetMs: 60_000,
      clock: { now: () => now },
      open: (layout: Layout) => {
        open += 1;
        return Promise.resolve({
          measure: (batch: number) => {
            now += 1_000;
            tried.push(`${layout.workers}x${layout.slots}x${layout.threads}/${batch}`);
            return Promise.resolve(speed(layout, batch));
          },
          [Symbol.asyncDispose]: () => {
            open -= 1;
            return Promise.resolve();
          },
        });
      },
    },
  };
}

test('what is done without a measurement is measured first, and every layout is closed again', async () => {
  const { tried, options, ...here } = machine(() => 10);
  await tune(SPACE, options);
  expect(tried).toEqual(['2x1x1/8', '2x1x1/4', '2x1x1/16', '1x1x2/8', '1x1x2/4', '1x1x2/16']);
  expect(here.open).toBe(0);
});

test('the fastest is taken', async () => {
  const { options } = machine(({ threads }, batch) => threads * batch);
  const { chosen, measured } = await tune(SPACE, options);
  expect(chosen).toEqual({ workers: 1, slots: 1, threads: 2, batch: 16 });
  expect(measured).toHaveLength(6);
});

test('slots above what evidence admits are never tried; admitted ones are', () => {
  const slotsOf = (space: TuningSpace) => layoutsOf(space).map(({ slots }) => slots);
  expect(Math.max(...slotsOf({ ...SPACE, cores: 16 }))).toBe(1);
  expect(Math.max(...slotsOf({ ...SPACE, cores: 16, admitted: 4 }))).toBe(4);
});

test('no layout has more compute threads than cores, or more processes than memory holds', () => {
  const layouts = layoutsOf({ ...SPACE, cores: 8, admitted: 8, fittingWorkers: 3 });
  for (const { workers, slots, threads } of layouts) {
    expect(workers * slots * threads).toBeLessThanOrEqual(8);
    expect(workers).toBeLessThanOrEqual(3);
  }
});

test('what was typed stays: only the rest is chosen', async () => {
  const { tried, options } = machine(() => 10);
  await tune({ ...SPACE, fixed: { threads: 1, batch: 8 } }, options);
  expect(tried).toEqual(['2x1x1/8']);
});

test('batches that evidence does not cover are not tried with several slots', async () => {
  const { tried, options } = machine(() => 10);
  await tune({ ...SPACE, admitted: 2, validatedBatch: 8 }, options);
  expect(tried.filter((one) => one.startsWith('1x2x1'))).toEqual(['1x2x1/8', '1x2x1/4']);
});

test('when the time is up, the best so far is taken', async () => {
  const { tried, options } = machine((_, batch) => batch);
  const { chosen } = await tune(SPACE, { ...options, budgetMs: 2_000 });
  expect(tried).toEqual(['2x1x1/8', '2x1x1/4']);
  expect(chosen.batch).toBe(8);
});

test('a layout that this machine cannot run is passed over, unless it is the first one', async () => {
  const full = new WavepoolError('INSUFFICIENT_MEMORY', 'too little');
  const { options } = machine(() => 10);
  const refusing = (threads: number) => ({
    ...options,
    open: (layout: Layout) =>
      layout.threads === threads ? Promise.reject(full) : options.open(layout),
  });
  expect((await tune(SPACE, refusing(2))).chosen.threads).toBe(1);
  await expect(tune(SPACE, refusing(1))).rejects.toBe(full);
});

test('of those about as fast, what takes less memory is taken, in whatever order they come', () => {
  const measured: TuningMeasurement[] = [
    { workers: 2, slots: 1, threads: 1, batch: 16, timesRealTime: 100 },
    { workers: 1, slots: 2, threads: 1, batch: 16, timesRealTime: 98 },
    { workers: 1, slots: 2, threads: 1, batch: 8, timesRealTime: 97 },
    { workers: 1, slots: 1, threads: 2, batch: 4, timesRealTime: 80 },
  ];
  const expected = { workers: 1, slots: 2, threads: 1, batch: 8 };
  expect(bestOf(measured)).toEqual(expected);
  expect(bestOf(measured.toReversed())).toEqual(expected);
});
