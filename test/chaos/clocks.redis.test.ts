/** Time limits of jobs, with real workers or none. */
import { describe, test } from 'vitest';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { deadlineWithoutWorker, timeLimits } from './clock-scenarios.ts';
import { proveScenario } from './support/prove-scenario.ts';

describe.skipIf(!TEST_ADDON_BUILT).concurrent('time limits', { timeout: 300_000 }, () => {
  test('busy timeout, overdue refusal, running time and deadline end jobs with their own codes', () =>
    proveScenario(timeLimits, { jobs: 8, times: 1 }));

  test('a deadline that passes while no worker is alive fails the job all the same', () =>
    proveScenario(deadlineWithoutWorker, { jobs: 5, times: 1 }));
});
