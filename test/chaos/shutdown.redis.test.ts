/** Workers end because somebody wants them to: nothing is lost, and no job is charged for it. */
import { describe, test } from 'vitest';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { drainDeadline, rollingRestart, secondSignal } from './shutdown-scenarios.ts';
import { proveScenario } from './support/prove-scenario.ts';

describe.skipIf(!TEST_ADDON_BUILT).concurrent('shutting down', { timeout: 300_000 }, () => {
  test('all workers may be replaced under load', () =>
    proveScenario(rollingRestart, { jobs: 40, times: 2 }));

  test('past its deadline a worker gives its jobs back, as they were', () =>
    proveScenario(drainDeadline, { jobs: 6, times: 1 }));

  test('ending at once, again and again, is no crash of the jobs', () =>
    proveScenario(secondSignal, { jobs: 4, times: 3 }));
});
