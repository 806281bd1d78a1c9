/** What a store of uploads does, and what the stores in folders and buckets share. */
import { type Hash, randomBytes } from 'node:crypto';
import { WavepoolError } from '../core/errors.ts';
import type { UploadId } from '../core/job/job.ts';

export interface StoredUpload {
  readonly id: UploadId;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly usedAt: number;
}

export interface WriteUploadOptions {
  readonly maxBytes: number;
  /** Whether to store the bytes under an id of their own, so that the upload can be removed without regard to other users. */
  readonly isPrivate?: boolean | undefined;
  /** Ends the write. Nothing of it is kept. */
  readonly signal?: AbortSignal | undefined;
}

export interface SweepOptions {
  /** Uploads that were not used since this time are old. Milliseconds since 1970. */
  readonly usedBefore: number;
  /** Whether an unfinished job needs the upload. */
  readonly isNeeded: (id: UploadId) => Promise<boolean>;
}

/** Uploaded audio, stored once under the SHA-256 of its bytes. */
export interface UploadStore {
  /**
   * Stores the bytes while they arrive, with bounded memory. Nothing is kept of a source that ends early.
   * @throws {WavepoolError} INPUT_TOO_LARGE, INPUT_EMPTY, STORAGE_FULL, STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN; the error of
   *   the source
   */
  write(source: AsyncIterable<Uint8Array>, options: WriteUploadOptions): Promise<StoredUpload>;
  /**
   * Notes a use, so that the upload is kept for another period.
   * @throws {WavepoolError} INPUT_NOT_FOUND, STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  use(id: UploadId): Promise<StoredUpload>;
  /** Removes an upload. Returns whether it existed. */
  remove(id: UploadId): Promise<boolean>;
  /** Removes old uploads that are not needed, and what dead processes left. Returns the ids of removed uploads. */
  sweep(options: SweepOptions): Promise<UploadId[]>;
  /** Set when clients can reach the store themselves. */
  readonly direct?: DirectUploads | undefined;
}

/** What a client announces about the bytes that it is going to put into the store. */
export interface AnnouncedUpload {
  /** The hexadecimal SHA-256, which will be the id of the upload. */
  readonly sha256: UploadId;
  readonly bytes: number;
}

export interface PresignedUpload {
  /** Names the place where the bytes are put. `confirm` needs it. */
  readonly token: string;
  /** The address for one PUT of the bytes. */
  readonly url: string;
  /** The headers that must be sent with the PUT. */
  readonly headers: Readonly<Record<string, string>>;
  /** When the address expires. Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface ConfirmOptions {
  /**
   * Whether the caller may have confirmed these bytes before, so that they are no longer where they were put. Other callers
   * must have put the bytes: naming the hash of stored bytes is not enough.
   */
  readonly isKnown: boolean;
  readonly signal: AbortSignal;
}

/** Uploads that clients put straight into the store. An upload exists only after it was confirmed. */
export interface DirectUploads {
  /**
   * Finds the upload when these bytes are stored already, and notes a use of it.
   * @throws {WavepoolError} STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  find(id: UploadId): Promise<StoredUpload | undefined>;
  /**
   * Makes an address without a request to the store.
   * @throws {WavepoolError} INPUT_TOO_LARGE for more bytes than one request may carry
   */
  presign(announced: AnnouncedUpload): Promise<PresignedUpload>;
  /**
   * Reads all bytes that were put, and stores them if they are what was announced; otherwise removes them. May be called
   * again.
   * @throws {WavepoolError} UPLOAD_MISMATCH, STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  confirm(
    token: string,
    announced: AnnouncedUpload,
    options: ConfirmOptions,
  ): Promise<StoredUpload>;
}

/**
 * Passes the bytes of an upload on, and hashes and checks them on the way. A private upload is hashed with random bytes, so
 * that it has an id of its own.
 * @throws {WavepoolError} INPUT_TOO_LARGE, INPUT_EMPTY; the signal's reason
 */
export async function* checkedBytes(
  source: AsyncIterable<Uint8Array>,
  { maxBytes, isPrivate = false, signal }: WriteUploadOptions,
  hash: Hash,
): AsyncGenerator<Uint8Array, void> {
  if (isPrivate) hash.update(randomBytes(32));
  let bytes = 0;
  for await (const piece of source) {
    signal?.throwIfAborted();
    bytes += piece.length;
    if (bytes > maxBytes) throw new WavepoolError('INPUT_TOO_LARGE', `more than ${maxBytes} bytes`);
    hash.update(piece);
    yield piece;
  }
  signal?.throwIfAborted();
  if (bytes === 0) throw new WavepoolError('INPUT_EMPTY', 'the upload has no bytes');
}
