import { randomBytes } from 'node:crypto';
import { link, mkdir, readdir, readFile, rm, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import type { JobResult } from '../core/results/job-result.ts';
import { codeOf, syncFolder, writeNewFile } from './durable-file.ts';
import { LocalJournals } from './journals.ts';
import {
  type Commit,
  hashInKey,
  parseStoredResult,
  type ResultStore,
  resultKey,
} from './result-store.ts';

/** A write takes seconds, so an older temporary file was left by a process that died. */
const STALE_TEMPORARY_MS = 3_600_000;
const SHARD = /^[0-9a-f]{2}$/;
const TEMPORARY_SUFFIX = '.tmp';
/** The folder of journals, beside the folders of results, whose names are two digits. */
const JOURNALS = 'journals';

/** Results as files in a local folder, or in a shared folder that every worker machine mounts. */
export class LocalResultStore implements ResultStore {
  readonly journals: LocalJournals;
  readonly #root: string;

  private constructor(root: string, journals: LocalJournals) {
    this.#root = root;
    this.journals = journals;
  }

  /**
   * Creates the folder and removes the temporary files of processes that died.
   * @throws {WavepoolError} STORAGE_FULL
   */
  static async open(root: string, now: () => number = Date.now): Promise<LocalResultStore> {
    await mkdir(root, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
      throw unwritable(root, error);
    });
    await removeStaleTemporaries(root, now());
    const journals = new LocalJournals(join(root, JOURNALS), now);
    await journals.sweep();
    return new LocalResultStore(root, journals);
  }

  keyOf(jobId: string): string {
    return resultKey(jobId);
  }

  async commit(jobId: string, result: JobResult): Promise<Commit> {
    const key = this.keyOf(jobId);
    const path = join(this.#root, key);
    const temporary = `${path}.${randomBytes(6).toString('hex')}${TEMPORARY_SUFFIX}`;
    try {
      await this.#makeShard(dirname(path));
      await writeNewFile(temporary, JSON.stringify(result));
      const committed = await this.#linkUnlessThere(temporary, path);
      await unlink(temporary);
      await syncFolder(dirname(path));
      return { committed, key };
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw unwritable(path, error);
    }
  }

  async read(key: string): Promise<JobResult> {
    const path = this.#pathOf(key);
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      throw new WavepoolError('RESULT_NOT_FOUND', key, { cause: error });
    }
    return parseStoredResult(text, path);
  }

  async remove(key: string): Promise<boolean> {
    const path = this.#pathOf(key);
    await this.journals.removeByHash(hashInKey(key));
    try {
      await unlink(path);
      return true;
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false;
      throw error;
    }
  }

  #pathOf(key: string): string {
    hashInKey(key);
    return join(this.#root, key);
  }

  async #makeShard(folder: string): Promise<void> {
    const created = await mkdir(folder, { recursive: true, mode: 0o700 });
    if (created !== undefined) await syncFolder(this.#root);
  }

  async #linkUnlessThere(temporary: string, path: string): Promise<boolean> {
    try {
      await link(temporary, path);
      return true;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw error;
    }
  }
}

/**
 * There is no space or no permission, or the disk is read-only, gone or broken; making folders gives many codes for that.
 * In each case the same job may succeed when somebody has repaired it.
 */
function unwritable(path: string, error: unknown): WavepoolError {
  return new WavepoolError('STORAGE_FULL', `${path} (${String(codeOf(error) ?? error)})`, {
    cause: error,
  });
}

async function removeStaleTemporaries(root: string, now: number): Promise<void> {
  // The folders are read one after the other, because together they may hold a million results.
  for (const shard of await readdir(root)) {
    if (!SHARD.test(shard)) continue;
    for (const name of await readdir(join(root, shard))) {
      if (!name.endsWith(TEMPORARY_SUFFIX)) continue;
      const path = join(root, shard, name);
      const found = await stat(path).catch(() => undefined);
      if (found !== undefined && now - found.mtimeMs > STALE_TEMPORARY_MS) {
        await rm(path, { force: true });
      }
    }
  }
}
