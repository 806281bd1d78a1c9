/** A job's input on the machine of the worker that has the job. */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import type { JobInput, RawAudioFormat } from '../core/job.ts';
import { uploadPath } from './uploads.ts';
import type { UrlLimits } from './url-input.ts';

/** An input as a local file that can be opened. */
export interface ResolvedInput extends AsyncDisposable {
  readonly path: string;
  /** Without its folder. */
  readonly name: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
  /** Declared; see `PathInput`. */
  readonly rawFormat: RawAudioFormat | undefined;
}

/** Where inputs that are not paths come from; without a place, there are none. */
export interface InputPlaces {
  readonly uploadsDir?: string | undefined;
  readonly urls?: UrlLimits | undefined;
}

const NOT_THERE = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'ELOOP', 'ENAMETOOLONG']);

/**
 * Finds a job's input on this machine, or fetches it. Dispose of it when it has been read: a fetched file goes then.
 * @throws {WavepoolError} INPUT_NOT_FOUND, INPUT_EMPTY, and for a URL what `fetchInput` throws
 */
export async function resolveInput(
  input: JobInput,
  places: InputPlaces = {},
  signal?: AbortSignal,
): Promise<ResolvedInput> {
  const name = inputName(input);
  const shown = describeInput(input);
  const { rawFormat } = input;
  switch (input.kind) {
    case 'path':
      return localFile(input.path, { shown, name, rawFormat });
    case 'upload': {
      if (places.uploadsDir === undefined) throw new WavepoolError('INPUT_NOT_FOUND', shown);
      return localFile(uploadPath(places.uploadsDir, input.id), { shown, name, rawFormat });
    }
    case 'url': {
      if (places.urls === undefined) throw new WavepoolError('INPUT_FORBIDDEN', shown);
      // With a client of its own, which most workers never need.
      const { fetchInput } = await import('./url-input.ts');
      const fetched = await fetchInput(input.url, places.urls, signal);
      const dispose = async (): Promise<void> => fetched[Symbol.asyncDispose]();
      try {
        const file = await localFile(fetched.path, { shown, name, rawFormat });
        return { ...file, [Symbol.asyncDispose]: dispose };
      } catch (error) {
        await dispose();
        throw error;
      }
    }
    default:
      return input satisfies never;
  }
}

/** What people call the input. */
export function inputName(input: JobInput): string {
  return input.kind === 'path' ? basename(input.path) : input.name;
}

/** Where the input is, for messages and transcripts; the query of a URL may hold secrets and is left out. */
export function describeInput(input: JobInput): string {
  switch (input.kind) {
    case 'path':
      return input.path;
    case 'upload':
      return `upload:${input.id}`;
    case 'url': {
      const { origin, pathname } = new URL(input.url);
      return origin + pathname;
    }
    default:
      return input satisfies never;
  }
}

async function localFile(
  path: string,
  { shown, name, rawFormat }: { shown: string } & Pick<ResolvedInput, 'name' | 'rawFormat'>,
): Promise<ResolvedInput> {
  try {
    const found = await stat(path);
    if (!found.isFile()) throw new WavepoolError('INPUT_NOT_FOUND', `${shown} is not a file`);
    if (found.size === 0) throw new WavepoolError('INPUT_EMPTY', shown);
    return {
      path,
      name,
      bytes: found.size,
      modifiedAtMs: found.mtimeMs,
      rawFormat,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!NOT_THERE.has(code)) throw error;
    throw new WavepoolError('INPUT_NOT_FOUND', `${shown} (${code})`, { cause: error });
  }
}
