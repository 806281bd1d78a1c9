/**
 * Uploads that clients put into the bucket themselves. Each gets an address for a place of its own. Only this code, which
 * reads the bytes first, copies them to where uploads are stored under their hash.
 */
import { createHash, randomBytes } from 'node:crypto';
import { WavepoolError } from '../../core/errors.ts';
import type { UploadId } from '../../core/job/job.ts';
import type {
  AnnouncedUpload,
  ConfirmOptions,
  DirectUploads,
  PresignedUpload,
  StoredUpload,
} from '../upload-store.ts';
import { type Bucket, guarded } from './bucket.ts';
import { readObject } from './download.ts';
import { toStorageError } from './errors.ts';
import { copyObject } from './multipart.ts';

/** The PUT must begin within this time. */
const ADDRESS_LIFE_SECONDS = 3_600;
/** A store takes at most this many bytes in one request. */
const MAX_PUT_BYTES = 5 * 1024 ** 3;
const TOKEN = /^[0-9a-f]{48}$/;

interface Stored {
  readonly now: () => number;
  readonly find: (id: UploadId) => Promise<StoredUpload | undefined>;
  readonly adopt: (stagedKey: string, id: UploadId) => Promise<StoredUpload>;
}

export class S3DirectUploads implements DirectUploads {
  readonly #bucket: Bucket;
  readonly #stored: Stored;

  constructor(bucket: Bucket, stored: Stored) {
    this.#bucket = bucket;
    this.#stored = stored;
  }

  find(id: UploadId): Promise<StoredUpload | undefined> {
    return this.#stored.find(id);
  }

  async presign(announced: AnnouncedUpload): Promise<PresignedUpload> {
    if (announced.bytes > MAX_PUT_BYTES) {
      const most = `one request carries at most ${MAX_PUT_BYTES} bytes; send it to /v1/uploads`;
      throw new WavepoolError('INPUT_TOO_LARGE', most);
    }
    const token = newToken();
    const expiresAt = this.#stored.now() + ADDRESS_LIFE_SECONDS * 1_000;
    const key = stagedKey(token);
    const signed = await presignUpload(this.#bucket, key, announced, ADDRESS_LIFE_SECONDS);
    return { token, ...signed, expiresAt };
  }

  async confirm(
    token: string,
    { sha256, bytes }: AnnouncedUpload,
    { isKnown, signal }: ConfirmOptions,
  ): Promise<StoredUpload> {
    if (!TOKEN.test(token)) throw new WavepoolError('INVALID_REQUEST', 'token: it is not one');
    const putKey = stagedKey(token);
    const put = await this.#bucket.head(putKey);
    if (put === undefined) return this.#confirmedBefore(isKnown ? sha256 : undefined);
    // The client can still overwrite the bytes that it has put. So they are copied first; the copy is checked and stored.
    const heldKey = stagedKey(newToken());
    try {
      if (put.bytes !== bytes) throw mismatch(`${put.bytes} bytes, and not ${bytes}`);
      await copyObject(this.#bucket, { key: putKey, ...put }, heldKey);
      await this.#assertHash(heldKey, sha256, signal);
      const stored = await this.#stored.adopt(heldKey, sha256);
      await this.#bucket.remove(putKey);
      return stored;
    } catch (error) {
      if (error instanceof WavepoolError && error.code === 'UPLOAD_MISMATCH')
        await this.#bucket.remove(putKey);
      throw error;
    } finally {
      // If the copy cannot be removed now, a sweep removes it when it is old.
      await this.#bucket.remove(heldKey).catch(() => undefined);
    }
  }

  /** The answer to the first confirmation may have been lost. */
  async #confirmedBefore(id: UploadId | undefined): Promise<StoredUpload> {
    const stored = id === undefined ? undefined : await this.#stored.find(id);
    if (stored === undefined) throw mismatch('nothing was put there');
    return stored;
  }

  async #assertHash(key: string, sha256: UploadId, signal: AbortSignal): Promise<void> {
    const hash = createHash('sha256');
    try {
      for await (const piece of readObject(this.#bucket, key, signal)) hash.update(piece);
    } catch (error) {
      signal.throwIfAborted();
      throw toStorageError(error, `GET ${this.#bucket.name(key)}`);
    }
    const found = hash.digest('hex');
    if (found !== sha256) throw mismatch(`its SHA-256 is ${found}, and not ${sha256}`);
  }
}

function newToken(): string {
  return randomBytes(24).toString('hex');
}

/** The key under which bytes arrive. */
export function stagedKey(token: string): string {
  return `staged/${token}`;
}

function mismatch(why: string): WavepoolError {
  return new WavepoolError('UPLOAD_MISMATCH', why);
}

/** An address for one PUT of these bytes. The store checks their length and, where it can, their hash. `confirm` checks both. */
async function presignUpload(
  bucket: Bucket,
  key: string,
  { bytes, sha256 }: { readonly bytes: number; readonly sha256: string },
  expiresIn: number,
): Promise<Pick<PresignedUpload, 'url' | 'headers'>> {
  const { sdk, publicClient } = bucket.access;
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  const checksum = Buffer.from(sha256, 'hex').toString('base64');
  const command = new sdk.PutObjectCommand({
    ...bucket.target(key),
    ContentLength: bytes,
    ChecksumSHA256: checksum,
  });
  const name = 'x-amz-checksum-sha256';
  const url = await guarded(`sign ${bucket.name(key)}`, () =>
    getSignedUrl(publicClient, command, {
      expiresIn,
      signableHeaders: new Set(['content-length', name]),
      unhoistableHeaders: new Set([name]),
    }),
  );
  return { url, headers: { [name]: checksum } };
}
