import { createRequire } from 'node:module';
import path from 'node:path';

/** A folder or file that ships with this package, wherever its code runs from: bundled, compiled or as it is written. */
export function packageFolder(...names: readonly string[]): string {
  const manifest = createRequire(import.meta.url).resolve('wavepool/package.json');
  return path.join(path.dirname(manifest), ...names);
}
