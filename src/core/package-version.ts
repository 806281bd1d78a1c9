import { createRequire } from 'node:module';

/** The version of this package, from its manifest. */
export function packageVersion(): string {
  const manifest: unknown = createRequire(import.meta.url)('wavepool/package.json');
  const isObject = typeof manifest === 'object' && manifest !== null && 'version' in manifest;
  return isObject ? String(manifest.version) : 'unknown';
}
