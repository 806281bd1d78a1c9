/** The store of uploads in a folder. */
import { createHash, randomBytes } from 'node:crypto';
import { link, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import type { UploadId } from '../core/job/job.ts';
import { codeOf } from './durable-file.ts';
import {
  checkedBytes,
  type StoredUpload,
  type SweepOptions,
  type UploadStore,
  type WriteUploadOptions,
} from './upload-store.ts';

const ID = /^[0-9a-f]{64}$/;
/** A part that is older than this was left by a process that died. */
const STALE_PART_MS = 86_400_000;
const PARTS = 'parts';

/** The path of an upload's file. Workers find it with this, too. */
export function uploadPath(root: string, id: UploadId): string {
  if (!ID.test(id)) throw new WavepoolError('INPUT_NOT_FOUND', `upload ${id}`);
  return join(root, id.slice(0, 2), id);
}

/** Uploads as files in a local folder, or in a shared folder that every worker machine mounts. */
export class LocalUploads implements UploadStore {
  readonly root: string;
  readonly #now: () => number;

  private constructor(root: string, now: () => number) {
    this.root = root;
    this.#now = now;
  }

  static async open(root: string, now: () => number = Date.now): Promise<LocalUploads> {
    await mkdir(join(root, PARTS), { recursive: true, mode: 0o700 });
    return new LocalUploads(root, now);
  }

  async write(
    source: AsyncIterable<Uint8Array>,
    options: WriteUploadOptions,
  ): Promise<StoredUpload> {
    const part = join(this.root, PARTS, randomBytes(12).toString('hex'));
    try {
      const { id, bytes } = await copy(source, part, options);
      const path = uploadPath(this.root, id);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      // When the same bytes are stored already, this only counts as a use of them.
      await link(part, path).catch((error: unknown) => {
        if (codeOf(error) !== 'EEXIST') throw error;
      });
      return { id, bytes, usedAt: await this.#touch(path) };
    } catch (error) {
      throw toStorageError(error);
    } finally {
      await rm(part, { force: true });
    }
  }

  async use(id: UploadId): Promise<StoredUpload> {
    const path = uploadPath(this.root, id);
    try {
      const { size } = await stat(path);
      return { id, bytes: size, usedAt: await this.#touch(path) };
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      throw new WavepoolError('INPUT_NOT_FOUND', `upload ${id}`, { cause: error });
    }
  }

  async remove(id: UploadId): Promise<boolean> {
    try {
      await rm(uploadPath(this.root, id));
      return true;
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false;
      throw error;
    }
  }

  async sweep({ usedBefore, isNeeded }: SweepOptions): Promise<UploadId[]> {
    await this.#removeStaleParts();
    const removed: UploadId[] = [];
    for (const shard of await readdir(this.root)) {
      if (shard === PARTS) continue;
      for (const id of await readdir(join(this.root, shard))) {
        if (!ID.test(id) || !(await this.#isOlder(id, usedBefore)) || (await isNeeded(id)))
          continue;
        if (await this.#removeIfStillOld(id, usedBefore)) removed.push(id);
      }
    }
    return removed;
  }

  /**
   * Moves the file aside first. A use that came just before is seen then, and the file is put back. A use that comes after
   * finds no file and fails.
   */
  async #removeIfStillOld(id: UploadId, usedBefore: number): Promise<boolean> {
    const path = uploadPath(this.root, id);
    const aside = join(this.root, PARTS, `${id}.${randomBytes(6).toString('hex')}`);
    const taken = await rename(path, aside).then(
      () => true,
      () => false,
    );
    if (!taken) return false;
    const { mtimeMs } = await stat(aside);
    const stillOld = mtimeMs < usedBefore;
    // The same bytes may have been uploaded again meanwhile. Then those stay.
    if (!stillOld) await link(aside, path).catch(() => undefined);
    await rm(aside, { force: true });
    return stillOld;
  }

  async #isOlder(id: UploadId, time: number): Promise<boolean> {
    const found = await stat(uploadPath(this.root, id)).catch(() => undefined);
    return found !== undefined && found.mtimeMs < time;
  }

  async #removeStaleParts(): Promise<void> {
    for (const name of await readdir(join(this.root, PARTS))) {
      const path = join(this.root, PARTS, name);
      const found = await stat(path).catch(() => undefined);
      if (found && this.#now() - found.mtimeMs > STALE_PART_MS) await rm(path, { force: true });
    }
  }

  async #touch(path: string): Promise<number> {
    const now = this.#now();
    await utimes(path, now / 1_000, now / 1_000);
    return now;
  }
}

async function copy(
  source: AsyncIterable<Uint8Array>,
  path: string,
  options: WriteUploadOptions,
): Promise<{ id: UploadId; bytes: number }> {
  const hash = createHash('sha256');
  let bytes = 0;
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const piece of checkedBytes(source, options, hash)) {
      await file.writeFile(piece);
      bytes += piece.length;
    }
    await file.sync();
    return { id: hash.digest('hex'), bytes };
  } finally {
    await file.close();
  }
}

function toStorageError(error: unknown): unknown {
  const code = codeOf(error);
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error;
  return new WavepoolError('STORAGE_FULL', 'no space left for the upload', { cause: error });
}
