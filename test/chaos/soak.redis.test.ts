/** Seconds of what `npm run soak` does for half an hour; memory is looked at there. */
import { expect, test } from 'vitest';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { soak } from './soak.ts';
import { buildPrograms } from './support/programs.ts';

test.skipIf(!TEST_ADDON_BUILT)(
  'mixed work with kills and cancels loses nothing and leaves nothing',
  async () => {
    await using programs = await buildPrograms();
    const result = await soak({ jobs: 0, times: 0, seed: 3, programs }, 0.15);
    expect(result).toMatchObject({ lost: 0, doubled: 0, stalls: 0 });
    expect(result.times).toBeGreaterThan(0);
  },
  120_000,
);
