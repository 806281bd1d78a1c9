/** The output directory of a run: its state folder under a lock, and files that appear whole or not at all. */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import { LockFile, LockHeldError } from '../core/files/lock-file.ts';
import type { OutputFile } from '../core/files/run-manifest.ts';
import { parseRunIdentity, RUN_SCHEMA_VERSION } from '../core/files/run-manifest.ts';
import type { Bucket } from '../storage/s3/bucket.ts';
import { Manifest } from './manifest.ts';
import { STATE_FOLDER } from './scan.ts';

interface OpenedFolder extends Pick<OutputFolder, 'path' | 'runId' | 'manifest'> {
  readonly lock: LockFile;
  readonly bucket: Bucket | undefined;
}

export class OutputFolder {
  /** Absolute. */
  readonly path: string;
  /** Stays the same for every run into this directory. */
  readonly runId: string;
  readonly manifest: Manifest;
  readonly #lock: LockFile;
  readonly #bucket: Bucket | undefined;
  #files = 0;

  private constructor({ path: folder, runId, manifest, lock, bucket }: OpenedFolder) {
    this.path = folder;
    this.runId = runId;
    this.manifest = manifest;
    this.#lock = lock;
    this.#bucket = bucket;
  }

  /**
   * Makes the directory and takes it for this run; a lock whose process died is taken over.
   * @param bucket takes the outputs; then only the state is in the directory
   * @throws {WavepoolError} OUTPUT_BUSY, STORAGE_FULL
   */
  static async open(folder: string, bucket?: Bucket): Promise<OutputFolder> {
    const state = path.join(folder, STATE_FOLDER);
    await storing(() => mkdir(state, { recursive: true }));
    const lock = await takeLock(folder, path.join(state, 'lock'));
    try {
      await storing(async () => {
        await rm(path.join(state, 'tmp'), { recursive: true, force: true });
        await mkdir(path.join(state, 'tmp'));
      });
      const runId = await storing(() => readOrCreateRunId(path.join(state, 'run.json')));
      const manifest = await storing(() => Manifest.open(state));
      return new OutputFolder({ path: path.resolve(folder), runId, manifest, lock, bucket });
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /**
   * Writes a file, replacing one that is there.
   * @param relative path inside the output directory
   * @returns its size in bytes
   * @param mediaType of an object
   * @throws {WavepoolError} STORAGE_FULL; of a bucket STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  async write(relative: string, content: string, mediaType?: string): Promise<number> {
    if (this.#bucket === undefined) await this.#writeFile(relative, content);
    else await this.#bucket.put(keyOf(relative), content, mediaType);
    return Buffer.byteLength(content);
  }

  async #writeFile(relative: string, content: string): Promise<void> {
    const target = this.#resolve(relative);
    const temporary = path.join(this.path, STATE_FOLDER, 'tmp', `${this.#files}-${randomUUID()}`);
    this.#files += 1;
    await storing(async () => {
      try {
        await writeFile(temporary, content, { flag: 'wx' });
        await mkdir(path.dirname(target), { recursive: true });
        await rename(temporary, target);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    });
  }

  /** Whether the file is there in the size in which it was written. */
  async holds(output: OutputFile): Promise<boolean> {
    if (this.#bucket !== undefined) {
      return (await this.#bucket.head(keyOf(output.path)))?.bytes === output.bytes;
    }
    try {
      return (await stat(this.#resolve(output.path))).size === output.bytes;
    } catch {
      return false;
    }
  }

  async close(): Promise<void> {
    try {
      await this.manifest.close();
    } finally {
      await this.#lock.release();
    }
  }

  #resolve(relative: string): string {
    const target = path.resolve(this.path, relative);
    if (!target.startsWith(path.join(this.path, path.sep)))
      throw new WavepoolError('INVALID_REQUEST', `${relative} is outside ${this.path}`);
    return target;
  }
}

function keyOf(relative: string): string {
  return relative.split(path.sep).join('/');
}

function takeLock(folder: string, lockPath: string): Promise<LockFile> {
  return storing(async () => {
    try {
      return await LockFile.acquire(lockPath, { timeoutMs: 0 });
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      throw new WavepoolError('OUTPUT_BUSY', `${folder} (${error.message})`, { cause: error });
    }
  });
}

async function readOrCreateRunId(filePath: string): Promise<string> {
  const known = parseRunIdentity(await readFile(filePath, 'utf8').catch(() => ''));
  if (known !== undefined) return known.runId;
  const runId = randomUUID();
  const createdAt = new Date().toISOString();
  const identity = { schemaVersion: RUN_SCHEMA_VERSION, runId, createdAt };
  await writeFile(`${filePath}.new`, `${JSON.stringify(identity, undefined, 2)}\n`);
  await rename(`${filePath}.new`, filePath);
  return runId;
}

async function storing<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof WavepoolError) throw error;
    const detail = error instanceof Error ? error.message : String(error);
    throw new WavepoolError('STORAGE_FULL', detail, { cause: error });
  }
}
