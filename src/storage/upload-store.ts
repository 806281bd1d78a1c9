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
  /** Stored by itself, though the same bytes may be there: it can be removed without asking who else uses it. */
  readonly isPrivate?: boolean | undefined;
  /** Ends the write; nothing stays. */
  readonly signal?: AbortSignal | undefined;
}

export interface SweepOptions {
  /** Uploads that nobody has used since then are old. Milliseconds since 1970. */
  readonly usedBefore: number;
  /** Whether an unfinished job needs the upload. */
  readonly isNeeded: (id: UploadId) => Promise<boolean>;
}

/** Uploaded audio, stored once under the SHA-256 of its bytes. */
export interface UploadStore {
  /**
   * Stores the bytes as they come; memory does not grow with them. What ends early leaves nothing.
   * @throws {WavepoolError} INPUT_TOO_LARGE, INPUT_EMPTY, STORAGE_FULL, STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN; what the source
   *   throws
   */
  write(source: AsyncIterable<Uint8Array>, options: WriteUploadOptions): Promise<StoredUpload>;
  /**
   * Notes a use: the upload is kept for another period.
   * @throws {WavepoolError} INPUT_NOT_FOUND, STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  use(id: UploadId): Promise<StoredUpload>;
  /** Whether there was one. */
  remove(id: UploadId): Promise<boolean>;
  /** Removes what is old and not needed, and what dead writers left. Returns the ids that are gone. */
  sweep(options: SweepOptions): Promise<UploadId[]>;
  /** Where clients can reach the store themselves. */
  readonly direct?: DirectUploads | undefined;
}

/** What a client says of the bytes that it is going to put into the store. */
export interface AnnouncedUpload {
  /** SHA-256, hexadecimal: the id that the upload will have. */
  readonly sha256: UploadId;
  readonly bytes: number;
}

export interface PresignedUpload {
  /** Names the place where the bytes are put; for `confirm`. */
  readonly token: string;
  /** Takes one PUT of the bytes. */
  readonly url: string;
  /** To be sent with it. */
  readonly headers: Readonly<Record<string, string>>;
  /** Of the address. Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface ConfirmOptions {
  /**
   * Whether the caller may have confirmed these bytes before, so that they are no longer where they were put. Without that,
   * to say what is stored already is not to have put it.
   */
  readonly isKnown: boolean;
  readonly signal: AbortSignal;
}

/** Uploads that do not pass through this process. Nothing counts until it was confirmed. */
export interface DirectUploads {
  /**
   * The upload, if these bytes are there already, as a use of it.
   * @throws {WavepoolError} STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  find(id: UploadId): Promise<StoredUpload | undefined>;
  /** Asks nothing of the store. @throws {WavepoolError} INPUT_TOO_LARGE for more than one request may carry */
  presign(announced: AnnouncedUpload): Promise<PresignedUpload>;
  /**
   * Takes what was put if it is what was announced: reads all of it once. What is not goes. Being done twice is the same as
   * once.
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
