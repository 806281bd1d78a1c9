import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import type { JobInput, RawAudioFormat } from '../core/job.ts';

/** An input as a local file that can be opened. */
export interface ResolvedInput {
  readonly path: string;
  /** Without its folder. */
  readonly name: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
  /** See `PathInput`. */
  readonly rawFormat: RawAudioFormat | undefined;
}

const NOT_THERE = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'ELOOP', 'ENAMETOOLONG']);

/**
 * Finds a job's input on this machine.
 * @throws {WavepoolError} INPUT_NOT_FOUND, INPUT_EMPTY
 */
export async function resolveInput(input: JobInput): Promise<ResolvedInput> {
  const { path, rawFormat } = input;
  try {
    const found = await stat(path);
    if (!found.isFile()) throw new WavepoolError('INPUT_NOT_FOUND', `${path} is not a file`);
    if (found.size === 0) throw new WavepoolError('INPUT_EMPTY', path);
    const { size: bytes, mtimeMs: modifiedAtMs } = found;
    return { path, name: basename(path), bytes, modifiedAtMs, rawFormat };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!NOT_THERE.has(code)) throw error;
    throw new WavepoolError('INPUT_NOT_FOUND', `${path} (${code})`, { cause: error });
  }
}
