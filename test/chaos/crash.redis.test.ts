/** Workers die, and nobody else is harmed: shortened here, whole in the chaos script. */
import { describe, test } from 'vitest';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { machineLost, nativeAbort, nativeHang, workerKilled } from './crash-scenarios.ts';
import { proveScenario } from './support/prove-scenario.ts';

describe.skipIf(!TEST_ADDON_BUILT).concurrent('workers die', { timeout: 300_000 }, () => {
  test('of aborts in native code: every innocent job completes, and both poisonous ones are named', () =>
    proveScenario(nativeAbort, { jobs: 12, times: 2 }));

  test('because native code hangs: the same', () =>
    proveScenario(nativeHang, { jobs: 6, times: 1 }));

  test('of kill -9: every job completes once', () =>
    proveScenario(workerKilled, { jobs: 40, times: 3 }));

  test('with their machine: the stall check brings every job back', () =>
    proveScenario(machineLost, { jobs: 8, times: 1 }));
});
