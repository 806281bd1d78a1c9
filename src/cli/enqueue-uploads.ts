/** Inputs of `enqueue` that workers elsewhere are to read: sent to the storage that they share. */
import { createReadStream } from 'node:fs';
import path from 'node:path';
import type { Config } from '../core/config.ts';
import type { JobId, RawAudioFormat, UploadInput } from '../core/job/job.ts';
import { UploadReferences } from '../queue/access/upload-references.ts';
import type { RedisAddress } from '../queue/redis/connection.ts';
import { openStorage } from '../storage/open-storage.ts';
import type { UploadStore } from '../storage/upload-store.ts';
import { resultsFolder, uploadsFolder } from './fleet.ts';

export class SharedUploads implements AsyncDisposable {
  readonly #store: UploadStore;
  readonly #references: UploadReferences;

  private constructor(store: UploadStore, references: UploadReferences) {
    this.#store = store;
    this.#references = references;
  }

  /** @throws {WavepoolError} STORAGE_UNSUITABLE, STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE, REDIS_UNAVAILABLE */
  static async open(config: Config, address: RedisAddress): Promise<SharedUploads> {
    const storage = await openStorage({ resultsDir: resultsFolder(config), s3: config.s3 });
    const store = await storage.openUploads(uploadsFolder(config));
    return new SharedUploads(store, await UploadReferences.open(address));
  }

  /** Sends a file, and keeps it for a job that is about to be added. */
  async send(file: string, jobId: JobId, rawFormat?: RawAudioFormat): Promise<UploadInput> {
    const { id } = await this.#store.write(createReadStream(file), {
      maxBytes: Number.MAX_SAFE_INTEGER,
    });
    await this.#references.add(id, jobId);
    return { kind: 'upload', id, name: path.basename(file), rawFormat };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#references[Symbol.asyncDispose]();
  }
}
