import { defineConfig } from 'vitest/config';

/** What takes longer than `npm test` has time for: see scripts/chaos.mjs and scripts/soak.mjs. */
export default defineConfig({
  test: {
    include: ['test/chaos/*.chaos.ts'],
    globalSetup: 'test/support/build-product.ts',
    fileParallelism: false,
    // Against hanging, not against slow machines.
    testTimeout: 7_200_000,
    hookTimeout: 120_000,
  },
});
