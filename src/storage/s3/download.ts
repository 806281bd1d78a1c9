/** Downloads objects to local files, because decoders seek. A download that breaks off continues where it was. */
import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { type FetchedInput, fetchToFile } from '../fetched-file.ts';
import type { Bucket } from './bucket.ts';
import { isMissing, isPreconditionFailed, toStorageError } from './errors.ts';

export interface DownloadOptions {
  readonly maxBytes: number;
  /** The name of the input, for messages. */
  readonly shown: string;
  readonly signal?: AbortSignal | undefined;
}

/** A connection without data for this long is taken for broken. */
const STALL_MS = 30_000;
const PAUSE_MS = 500;

/**
 * Fetches an object into a temporary file.
 * @throws {WavepoolError} INPUT_NOT_FOUND, INPUT_TOO_LARGE, INPUT_CHANGED, STORAGE_FULL, STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN; the
 *   signal's reason
 */
export async function downloadObject(
  bucket: Bucket,
  key: string,
  options: DownloadOptions,
): Promise<FetchedInput> {
  try {
    return await fetchToFile((path) => new Download(bucket, key, options).save(path));
  } catch (error) {
    options.signal?.throwIfAborted();
    throw error;
  }
}

/** The bytes of an object while they arrive. A broken connection is an error. */
export async function* readObject(
  bucket: Bucket,
  key: string,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void> {
  const { body } = await openObject(bucket, key, { offset: 0, etag: undefined, signal });
  yield* piecesOf(body, signal);
}

class Download {
  readonly #bucket: Bucket;
  readonly #key: string;
  readonly #options: DownloadOptions;
  #offset = 0;
  #total = Number.POSITIVE_INFINITY;
  #etag: string | undefined;

  constructor(bucket: Bucket, key: string, options: DownloadOptions) {
    this.#bucket = bucket;
    this.#key = key;
    this.#options = options;
  }

  async save(path: string): Promise<void> {
    const file = await open(path, 'wx', 0o600);
    try {
      let progressAt = performance.now();
      while (this.#offset < this.#total) {
        const before = this.#offset;
        const failure = await this.#receive(file);
        if (failure === undefined) break;
        if (this.#offset > before) progressAt = performance.now();
        if (!this.#mayGoOn(failure, progressAt)) throw toWavepoolError(failure);
        await delay(PAUSE_MS, undefined, { signal: this.#options.signal });
      }
    } finally {
      await file.close();
    }
  }

  /** Writes what arrives. Returns the error that ended it, or undefined at the end of the object. */
  async #receive(file: FileHandle): Promise<unknown> {
    const { signal = new AbortController().signal, shown, maxBytes } = this.#options;
    const at = { offset: this.#offset, etag: this.#etag, signal };
    try {
      const { body, bytes, etag } = await openObject(this.#bucket, this.#key, at);
      this.#etag = etag;
      this.#total = this.#offset + bytes;
      if (this.#total > maxBytes) {
        body.destroy();
        throw new WavepoolError('INPUT_TOO_LARGE', `${shown} has more than ${maxBytes} bytes`);
      }
      for await (const piece of piecesOf(body, signal)) {
        await writePiece(file, piece);
        this.#offset += piece.length;
      }
      if (this.#offset >= this.#total) return undefined;
      throw new WavepoolError('STORAGE_UNAVAILABLE', `${shown} broke off`);
    } catch (error) {
      if (isMissing(error)) return new WavepoolError('INPUT_NOT_FOUND', shown, { cause: error });
      if (isPreconditionFailed(error))
        return new WavepoolError('INPUT_CHANGED', shown, { cause: error });
      return toStorageError(error, `GET ${shown}`);
    }
  }

  /** The SDK repeats requests by itself, but not for a body that broke off. */
  #mayGoOn(failure: unknown, progressAt: number): boolean {
    const { signal } = this.#options;
    const passing = failure instanceof WavepoolError && failure.code === 'STORAGE_UNAVAILABLE';
    const { patienceMs } = this.#bucket.access.retry;
    return passing && signal?.aborted !== true && performance.now() - progressAt < patienceMs;
  }
}

async function openObject(
  bucket: Bucket,
  key: string,
  {
    offset,
    etag,
    signal,
  }: { readonly offset: number; readonly etag: string | undefined; readonly signal: AbortSignal },
): Promise<{ body: Readable; bytes: number; etag: string | undefined }> {
  const { sdk, client } = bucket.access;
  const command = new sdk.GetObjectCommand({
    ...bucket.target(key),
    ...(offset === 0 ? {} : { Range: `bytes=${offset}-` }),
    ...(etag === undefined ? {} : { IfMatch: etag }),
  });
  const answer = await client.send(command, { abortSignal: signal });
  const { Body, ContentLength = 0, ContentRange, ETag } = answer;
  if (offset > 0 && ContentRange === undefined) {
    throw new WavepoolError('STORAGE_UNSUITABLE', `${bucket.name(key)}: parts cannot be read`);
  }
  // In Node the body is a Node stream. The SDK's type also covers browsers.
  return { body: Body as Readable, bytes: ContentLength, etag: ETag };
}

async function* piecesOf(body: Readable, signal: AbortSignal): AsyncGenerator<Buffer, void> {
  const stalled = (): void => {
    body.destroy(Object.assign(new Error('nothing comes'), { name: 'TimeoutError' }));
  };
  const stop = (): void => {
    body.destroy(new Error('not wanted any more'));
  };
  let timer = setTimeout(stalled, STALL_MS);
  signal.addEventListener('abort', stop, { once: true });
  try {
    for await (const piece of body) {
      clearTimeout(timer);
      yield piece;
      timer = setTimeout(stalled, STALL_MS);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
    body.destroy();
  }
}

async function writePiece(file: FileHandle, piece: Buffer): Promise<void> {
  try {
    await file.writeFile(piece);
  } catch (cause) {
    throw new WavepoolError('STORAGE_FULL', 'no space left for the input', { cause });
  }
}
