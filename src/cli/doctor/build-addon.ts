/** Compiles the native addon with the script and the sources that ship with the package. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import type { Writable } from 'node:stream';
import { WavepoolError } from '../../core/errors.ts';
import { packageFolder } from '../../core/package-folder.ts';

/**
 * Takes a minute or two the first time, hardly any when nothing has changed.
 * @param progress is told how far it has got, and what the compiler says when it fails
 * @throws {WavepoolError} ADDON_MISSING
 */
export async function buildAddon(progress: Writable): Promise<void> {
  const script = packageFolder('scripts', 'build-native.mjs');
  const child = spawn(process.execPath, [script, '--progress'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const output of [child.stdout, child.stderr]) output.pipe(progress, { end: false });
  const [code] = await once(child, 'close');
  if (code === 0) return;
  const detail = `it could not be compiled in ${packageFolder()}, which has to be writable`;
  throw new WavepoolError('ADDON_MISSING', detail);
}
