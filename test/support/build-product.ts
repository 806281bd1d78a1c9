/** Before the tests of the command line: what they run is what is in src. */
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

/** Vitest calls it once. */
export function setup(): void {
  const root = resolve(import.meta.dirname, '../..');
  const { status } = spawnSync(process.execPath, ['scripts/build.mjs'], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('the product could not be built');
}
