/**
 * Uploads in a bucket:
 *
 *   staged/TOKEN          arriving bytes, whose hash is not known or not checked yet
 *   uploads/XX/SHA-256    a stored upload, copied there inside the store
 *   used/SHA-256          written at each use; its time is that of the last use
 *   condemned/SHA-256     exists while a sweep removes the upload
 *
 * A sweep first writes `condemned`, then checks for a use. A use first writes `used`, then checks for `condemned`. So at least
 * one of them sees the other, and no job gets an upload that is being removed.
 */
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { WavepoolError } from '../../core/errors.ts';
import type { UploadId } from '../../core/job/job.ts';
import type { FetchedInput } from '../fetched-file.ts';
import {
  checkedBytes,
  type DirectUploads,
  type StoredUpload,
  type SweepOptions,
  type UploadStore,
  type WriteUploadOptions,
} from '../upload-store.ts';
import type { Bucket } from './bucket.ts';
import { S3DirectUploads, stagedKey } from './direct-uploads.ts';
import { downloadObject } from './download.ts';
import { abortStaleUploads, copyObject, sendObject } from './multipart.ts';

const ID = /^[0-9a-f]{64}$/;
/** Staged bytes that are older than this were left by a process or a client that is gone. */
const STALE_STAGED_MS = 86_400_000;
/** A sweep that has not removed an upload within this time leaves it. */
const CONDEMNED_FOR_MS = 20_000;
/** After this time a sweep that died has no request under way, even if clocks differ by minutes. */
const STALE_CONDEMNED_MS = 20 * 60_000;
/** A use waits this many times for a sweep that removes its upload. */
const LOOKS = 50;
const LOOK_MS = 100;

export class S3Uploads implements UploadStore {
  readonly direct: DirectUploads;
  readonly #bucket: Bucket;
  readonly #now: () => number;

  constructor(bucket: Bucket, now: () => number = Date.now) {
    this.#bucket = bucket;
    this.#now = now;
    this.direct = new S3DirectUploads(bucket, {
      now,
      find: (id) => this.#find(id),
      adopt: (stagedKey, id) => this.#adopt(stagedKey, id),
    });
  }

  async write(
    source: AsyncIterable<Uint8Array>,
    options: WriteUploadOptions,
  ): Promise<StoredUpload> {
    const staged = stagedKey(randomBytes(24).toString('hex'));
    const hash = createHash('sha256');
    try {
      const checked = checkedBytes(source, options, hash);
      await sendObject(this.#bucket, staged, checked, options.maxBytes);
      options.signal?.throwIfAborted();
      return await this.#adopt(staged, hash.digest('hex'));
    } finally {
      // If it cannot be removed now, a sweep removes it when it is old.
      await this.#bucket.remove(staged).catch(() => undefined);
    }
  }

  async use(id: UploadId): Promise<StoredUpload> {
    const stored = await this.#find(id);
    if (stored === undefined) throw new WavepoolError('INPUT_NOT_FOUND', `upload ${id}`);
    return stored;
  }

  async remove(id: UploadId): Promise<boolean> {
    const found = await this.#bucket.head(uploadKey(id));
    await this.#bucket.remove(uploadKey(id));
    await this.#bucket.remove(usedKey(id));
    return found !== undefined;
  }

  /** Fetches the bytes into a local file. */
  async fetch(id: UploadId, signal?: AbortSignal): Promise<FetchedInput> {
    const shown = `upload:${id}`;
    const maxBytes = Number.MAX_SAFE_INTEGER;
    return downloadObject(this.#bucket, uploadKey(id), { maxBytes, shown, signal });
  }

  async sweep({ usedBefore, isNeeded }: SweepOptions): Promise<UploadId[]> {
    await this.#removeLeftovers();
    const removed: UploadId[] = [];
    for await (const { key, modifiedAtMs } of this.#bucket.list('uploads/')) {
      const id = key.slice(key.lastIndexOf('/') + 1);
      if (!ID.test(id) || modifiedAtMs >= usedBefore) continue;
      if ((await this.#isUsedSince(id, usedBefore)) || (await isNeeded(id))) continue;
      if (await this.#removeIfStillUnused(id, usedBefore)) removed.push(id);
    }
    return removed;
  }

  /** Writes `used` before it checks for `condemned`; see the header of this file. */
  async #find(id: UploadId): Promise<StoredUpload | undefined> {
    const key = uploadKey(id);
    await this.#bucket.put(usedKey(id), 'used');
    for (let looks = 1; await this.#isCondemned(id); looks += 1) {
      if (looks === LOOKS) {
        throw new WavepoolError('STORAGE_UNAVAILABLE', `upload ${id} is being removed`);
      }
      await delay(LOOK_MS);
    }
    const found = await this.#bucket.head(key);
    if (found !== undefined) return { id, bytes: found.bytes, usedAt: this.#now() };
    await this.#bucket.remove(usedKey(id));
    return undefined;
  }

  /** Stores the staged bytes, unless they are stored already. */
  async #adopt(staged: string, id: UploadId): Promise<StoredUpload> {
    const known = await this.#find(id);
    if (known !== undefined) return known;
    const found = await this.#bucket.head(staged);
    if (found === undefined) throw new WavepoolError('STORAGE_UNAVAILABLE', `${staged} is gone`);
    await copyObject(this.#bucket, { key: staged, ...found }, uploadKey(id));
    return { id, bytes: found.bytes, usedAt: this.#now() };
  }

  async #isCondemned(id: UploadId): Promise<boolean> {
    const found = await this.#bucket.head(condemnedKey(id));
    return found !== undefined && this.#storeNow() - found.modifiedAtMs < STALE_CONDEMNED_MS;
  }

  async #isUsedSince(id: UploadId, time: number): Promise<boolean> {
    const used = await this.#bucket.head(usedKey(id));
    return used !== undefined && used.modifiedAtMs >= time;
  }

  async #removeIfStillUnused(id: UploadId, usedBefore: number): Promise<boolean> {
    const startedAt = performance.now();
    // The sweep of another server may be removing it.
    if (!(await this.#bucket.putIfAbsent(condemnedKey(id), 'condemned'))) return false;
    try {
      if (await this.#isUsedSince(id, usedBefore)) return false;
      if (performance.now() - startedAt > CONDEMNED_FOR_MS) return false;
      await this.#bucket.remove(uploadKey(id));
      await this.#bucket.remove(usedKey(id));
      return true;
    } finally {
      await this.#bucket.remove(condemnedKey(id));
    }
  }

  async #removeLeftovers(): Promise<void> {
    const staleBefore = this.#now() - STALE_STAGED_MS;
    await abortStaleUploads(this.#bucket, staleBefore);
    for await (const { key, modifiedAtMs } of this.#bucket.list('staged/')) {
      if (modifiedAtMs < staleBefore) await this.#bucket.remove(key);
    }
    for await (const { key, modifiedAtMs } of this.#bucket.list('condemned/')) {
      if (this.#storeNow() - modifiedAtMs >= STALE_CONDEMNED_MS) await this.#bucket.remove(key);
    }
  }

  /** The real time, to compare with times that the store wrote a moment ago. The age of uploads follows the injected clock. */
  #storeNow(): number {
    return Date.now();
  }
}

function uploadKey(id: UploadId): string {
  if (!ID.test(id)) throw new WavepoolError('INPUT_NOT_FOUND', `upload ${id}`);
  return `uploads/${id.slice(0, 2)}/${id}`;
}

function usedKey(id: UploadId): string {
  return `used/${id}`;
}

function condemnedKey(id: UploadId): string {
  return `condemned/${id}`;
}
