/**
 * Seeded disorder over three models with real native threads. The choices repeat for a seed, the threads do not.
 *
 * WAVEPOOL_STRESS_OPERATIONS sets how much is done (`npm run stress`: about a minute), WAVEPOOL_STRESS_SEED which.
 */
import { randomInt } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { faults, TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { Disorder } from './disorder.ts';
import { turn } from './manual-clock.ts';
import { expectAtRest, modelFile, nativeRuntime } from './native-lifecycle.ts';
import { randomness } from './randomness.ts';

const { WAVEPOOL_STRESS_SEED, WAVEPOOL_STRESS_OPERATIONS } = process.env;
const SEED = Number(WAVEPOOL_STRESS_SEED ?? randomInt(2 ** 31));
const OPERATIONS = Number(WAVEPOOL_STRESS_OPERATIONS ?? 10_000);

describe.skipIf(!TEST_ADDON_BUILT)('three models on native threads', () => {
  test(`${OPERATIONS} operations with seed ${SEED}`, { timeout: 600_000 }, async () => {
    const { runtime, register, decode, segment } = nativeRuntime({
      maxLoadedModels: 2,
      idleUnloadMs: 20,
    });
    await decode();
    for (const id of ['a', 'b', 'c']) register(id, { slots: 2, maxBatch: 2, maxQueued: 24 });
    const { pick } = randomness(SEED + 1);
    const chaos = new Disorder({
      seed: SEED,
      runtime,
      maxLoadedModels: 2,
      paths: [modelFile('wide'), modelFile('narrow', { capacity: 2 }), modelFile('plain')],
      provoked: ['SLOTS_UNSUPPORTED', 'MODEL_LOAD_FAILED', 'INTERNAL fault: run'],
      segment: () => segment(pick(20) === 0 ? { fault: 'run' } : {}),
    });
    for (let operation = 0; operation < OPERATIONS; operation += 1) {
      chaos.step();
      if (pick(40) === 0) faults().setFault('load', pick(3) === 0);
      if (pick(40) === 0) faults().setFault('second-clone', pick(3) === 0);
      if (pick(2) === 0) await turn();
      chaos.check();
    }
    faults().clearFaults();
    while (chaos.unsettled > 0) {
      chaos.endStreams();
      await turn();
      chaos.check();
    }
    chaos.endStreams();
    for (const { id } of runtime.snapshot().models) {
      await runtime.unload(id);
      await expectAtRest(runtime, id, 'unloaded');
    }
    chaos.expectAllEnded();
    expect(faults().liveObjects()).toEqual({ weights: 0, sessions: 0 });
    process.stdout.write(`seed ${SEED}: ${JSON.stringify(chaos.counts)}\n`);
  });
});
