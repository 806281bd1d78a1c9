/** Cancelling from another process than the worker's. */
import { describe, test } from 'vitest';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { cancelAtRandom, cancelEveryState } from './cancel-scenarios.ts';
import { proveScenario } from './support/prove-scenario.ts';

describe.skipIf(!TEST_ADDON_BUILT).concurrent('cancelling', { timeout: 300_000 }, () => {
  test('ends what waits and what runs, frees the slot for the next job, and harms nothing that ended', () =>
    proveScenario(cancelEveryState, { jobs: 6, times: 1 }));

  test('a hundred times at random leaves no slot taken and every neighbor its text', () =>
    proveScenario(cancelAtRandom, { jobs: 4, times: 100 }));
});
