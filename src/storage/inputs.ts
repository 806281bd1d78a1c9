/** Finds the input of a job on the machine of the worker, or fetches it. */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import type { JobInput, RawAudioFormat, UploadId } from '../core/job/job.ts';
import { formatObjectAddress, type ObjectAddress } from '../core/s3-settings.ts';
import type { FetchedInput } from './fetched-file.ts';
import { uploadPath } from './local-uploads.ts';
import type { UrlLimits } from './url-input.ts';

/** An input as a local file that can be opened. */
export interface ResolvedInput extends AsyncDisposable {
  readonly path: string;
  /** The name without a folder. */
  readonly name: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
  /** The format that the request declared; see `PathInput`. */
  readonly rawFormat: RawAudioFormat | undefined;
}

/** The places from which inputs other than paths come. A kind without its place is refused. */
export interface InputPlaces {
  readonly uploadsDir?: string | undefined;
  /** Fetches an upload from a bucket; used in place of `uploadsDir`. */
  readonly fetchUpload?: FetchUpload | undefined;
  /** @throws {WavepoolError} INPUT_FORBIDDEN, INPUT_NOT_FOUND, INPUT_TOO_LARGE, INPUT_CHANGED, STORAGE_… */
  readonly fetchObject?: FetchObject | undefined;
  readonly urls?: UrlLimits | undefined;
}

export type FetchUpload = (id: UploadId, signal?: AbortSignal) => Promise<FetchedInput>;
export type FetchObject = (address: ObjectAddress, signal?: AbortSignal) => Promise<FetchedInput>;

const NOT_THERE = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'ELOOP', 'ENAMETOOLONG']);

/**
 * Finds a job's input on this machine, or fetches it. Dispose of it after reading it, so that a fetched file is removed.
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
      const { fetchUpload, uploadsDir } = places;
      if (fetchUpload !== undefined)
        return fetchedFile(await fetchUpload(input.id, signal), { shown, name, rawFormat });
      if (uploadsDir === undefined) throw new WavepoolError('INPUT_NOT_FOUND', shown);
      return localFile(uploadPath(uploadsDir, input.id), { shown, name, rawFormat });
    }
    case 'object': {
      if (places.fetchObject === undefined) throw new WavepoolError('INPUT_FORBIDDEN', shown);
      return fetchedFile(await places.fetchObject(input, signal), { shown, name, rawFormat });
    }
    case 'url': {
      if (places.urls === undefined) throw new WavepoolError('INPUT_FORBIDDEN', shown);
      // This module loads an HTTP client that most workers never need.
      const { fetchInput } = await import('./url-input.ts');
      const fetched = await fetchInput(input.url, places.urls, signal);
      return fetchedFile(fetched, { shown, name, rawFormat });
    }
    default:
      return input satisfies never;
  }
}

/** The name of the input, for people. */
export function inputName(input: JobInput): string {
  switch (input.kind) {
    case 'path':
      return basename(input.path);
    case 'object':
      return basename(input.key);
    case 'upload':
    case 'url':
      return input.name;
    default:
      return input satisfies never;
  }
}

/** Where the input is, for messages and transcripts. The query of a URL is left out, because it may hold secrets. */
export function describeInput(input: JobInput): string {
  switch (input.kind) {
    case 'path':
      return input.path;
    case 'upload':
      return `upload:${input.id}`;
    case 'object':
      return formatObjectAddress(input);
    case 'url': {
      const { origin, pathname } = new URL(input.url);
      return origin + pathname;
    }
    default:
      return input satisfies never;
  }
}

type Shown = { readonly shown: string } & Pick<ResolvedInput, 'name' | 'rawFormat'>;

async function fetchedFile(fetched: FetchedInput, shown: Shown): Promise<ResolvedInput> {
  const dispose = async (): Promise<void> => fetched[Symbol.asyncDispose]();
  try {
    return { ...(await localFile(fetched.path, shown)), [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function localFile(path: string, { shown, name, rawFormat }: Shown): Promise<ResolvedInput> {
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
