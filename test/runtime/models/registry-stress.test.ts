/** Seeded disorder over three models on the engine double: native work ends, fails and is late when the seed says so. */
import { afterEach, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { segment } from '../batches/batcher-fixture.ts';
import { Disorder } from '../disorder.ts';
import type { DoubleRun } from '../engine-double.ts';
import { expectAllOver, lifecycle } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';

afterEach(expectAllOver);

const STEPS = 700;
const MODELS = ['a', 'b', 'c'];

async function disorder(seed: number): Promise<void> {
  const { clock, engine, register, runtime } = lifecycle({
    maxLoadedModels: 2,
    idleUnloadMs: 700,
    loadTimeoutMs: 400,
  });
  for (const id of MODELS) register(id, { slots: 2, maxBatch: 2, maxQueued: 12 });
  let next = 0;
  const chaos = new Disorder({
    seed,
    runtime,
    maxLoadedModels: 2,
    paths: ['a.gguf', 'b.gguf', 'narrow.gguf'],
    provoked: ['MODEL_LOAD_FAILED', 'SLOTS_UNSUPPORTED', 'INTERNAL native'],
    segment: () => {
      next += 1;
      return segment('ABCD'.charAt(next % 4), next);
    },
  });
  const { pick } = chaos;
  engine.capacities.set('narrow.gguf', 2);

  /** Native work that has begun and not ended. */
  const waiting: (() => void)[] = [];
  const held = (mayFail: boolean): Promise<void> =>
    new Promise((resolve, reject) => {
      const fails = mayFail && pick(8) === 0;
      const end = () =>
        fails ? reject(new WavepoolError('MODEL_LOAD_FAILED', 'seeded')) : resolve();
      waiting.push(end);
    });
  engine.onLoad = () => held(true);
  engine.onPool = () => held(true);
  engine.onPoolClose = () => held(false);
  const ended = new WeakSet<DoubleRun>();
  const endSomething = (): void => {
    const runs = engine.pools.flatMap(({ runs }) => runs).filter((run) => !ended.has(run));
    const run = runs[pick(runs.length)];
    if (waiting.length > 0 && (pick(2) === 0 || !run))
      waiting.splice(pick(waiting.length), 1)[0]?.();
    else if (run) {
      ended.add(run);
      if (pick(10) === 0) run.fail(new Error('native'));
      else run.finish();
    }
  };

  for (let step = 0; step < STEPS; step += 1) {
    chaos.step();
    endSomething();
    if (pick(2) === 0) endSomething();
    if (pick(2) === 0) await turn();
    if (pick(6) === 0) await clock.advance(pick(200));
    chaos.check();
  }
  chaos.endStreams();
  for (let left = 5_000; left > 0 && (chaos.unsettled > 0 || waiting.length > 0); left -= 1) {
    endSomething();
    chaos.endStreams();
    await turn();
    chaos.check();
  }
  engine.onLoad = () => Promise.resolve();
  engine.onPool = () => Promise.resolve();
  engine.onPoolClose = () => Promise.resolve();
  chaos.endStreams();
  for (let left = 100; left > 0; left -= 1) endSomething();
  await turn();
  chaos.expectAllEnded();
  expect(Object.keys(chaos.counts)).toHaveLength(7);
}

test.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])(
  'three models in disorder with seed %i: everything asked is answered, in order, within the limits',
  disorder,
);
