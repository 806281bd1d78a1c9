/** Long recordings, and a disk that recovers: shortened here, whole in the chaos script. */
import { describe, test } from 'vitest';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { SMALL_DISKS } from '../support/small-disk.ts';
import { diskFull, diskReadOnly } from './disk-scenarios.ts';
import {
  killedLate,
  longBesideShort,
  shortBesideLong,
  urgentBehindLong,
  waitTold,
} from './long-scenarios.ts';
import { proveScenario } from './support/prove-scenario.ts';

describe.skipIf(!TEST_ADDON_BUILT).concurrent('long recordings', { timeout: 120_000 }, () => {
  test('a worker killed at 95 % of one repeats only the last stretch, to the same text', () =>
    proveScenario(killedLate, { jobs: 60, times: 1 }));

  test('sixteen of them end oldest first, and do not hold up short ones', () =>
    proveScenario(longBesideShort, { jobs: 24, times: 1 }));

  test('O10 a short job beside one of them gets the next slot, an urgent one the only slot', () =>
    Promise.all([
      proveScenario(shortBesideLong, { jobs: 1, times: 2 }),
      proveScenario(urgentBehindLong, { jobs: 1, times: 2 }),
    ]));

  test('O10 a job that waits for a slot says so', () =>
    proveScenario(waitTold, { jobs: 2, times: 1 }));
});

describe
  .skipIf(!TEST_ADDON_BUILT || !SMALL_DISKS)
  .concurrent('the disk of the results', { timeout: 120_000 }, () => {
    test('is full for a while: every job completes once, by itself', () =>
      proveScenario(diskFull, { jobs: 12, times: 1 }));

    test('is read-only for a while: the same', () =>
      proveScenario(diskReadOnly, { jobs: 12, times: 1 }));
  });
