/** Opens the stores of a process: for results, uploads and inputs, in folders or in a bucket. */
import {
  assertInsideRoots,
  formatObjectAddress,
  NO_S3,
  type S3Settings,
} from '../core/s3-settings.ts';
import { removeLeftFetches } from './fetched-file.ts';
import type { FetchObject, InputPlaces } from './inputs.ts';
import { LocalResultStore } from './local-result-store.ts';
import { LocalUploads } from './local-uploads.ts';
import type { ResultStore } from './result-store.ts';
import { assertSuitable, Bucket, openAccess, type S3Access } from './s3/bucket.ts';
import { downloadObject } from './s3/download.ts';
import { S3ResultStore } from './s3/results.ts';
import { S3Uploads } from './s3/uploads.ts';
import type { UploadStore } from './upload-store.ts';

export interface StorageOptions {
  /** @defaultValue no bucket is used */
  readonly s3?: S3Settings | undefined;
  /** The folder for results, unless they are in a bucket. */
  readonly resultsDir: string;
  /** The folder for uploads, unless they are in a bucket. */
  readonly uploadsDir?: string | undefined;
  /** The largest object that may be fetched as an input. @defaultValue 2 GiB */
  readonly maxObjectBytes?: number | undefined;
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
}

export interface Storage {
  readonly results: ResultStore;
  /** Tells a worker where to find uploads and objects. */
  readonly places: Pick<InputPlaces, 'uploadsDir' | 'fetchUpload' | 'fetchObject'>;
  /** A server uses it to receive and remove uploads. */
  openUploads(uploadsDir: string): Promise<UploadStore>;
}

/** A server does not repeat its requests to the store for longer, because its clients wait. They can ask again. */
export const SERVER_PATIENCE_MS = 10_000;
const DEFAULT_MAX_OBJECT_BYTES = 2 * 1024 ** 3;

/**
 * Checks that a bucket is suitable before anything is stored in it.
 * @throws {WavepoolError} STORAGE_FULL, STORAGE_UNSUITABLE, STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE
 */
export async function openStorage(options: StorageOptions): Promise<Storage> {
  const { s3 = NO_S3, uploadsDir, now = Date.now } = options;
  const { place, inputRoots } = s3;
  const usesBuckets = place !== undefined || inputRoots.length > 0;
  const access = usesBuckets ? await openAccess(s3) : undefined;
  if (access !== undefined) await removeLeftFetches();
  const fetchObject =
    access === undefined || inputRoots.length === 0 ? undefined : objectFetcher(access, options);
  if (access === undefined || place === undefined) {
    return {
      results: await LocalResultStore.open(options.resultsDir, now),
      places: { uploadsDir, fetchObject },
      openUploads: (folder) => LocalUploads.open(folder, now),
    };
  }
  const bucket = new Bucket(access, place);
  await assertSuitable(bucket);
  const uploads = new S3Uploads(bucket, now);
  return {
    results: new S3ResultStore(bucket, now),
    places: { fetchUpload: (id, signal) => uploads.fetch(id, signal), fetchObject },
    openUploads: () => Promise.resolve(uploads),
  };
}

function objectFetcher(
  access: S3Access,
  { s3 = NO_S3, maxObjectBytes: maxBytes = DEFAULT_MAX_OBJECT_BYTES }: StorageOptions,
): FetchObject {
  return async (address, signal) => {
    assertInsideRoots(address, s3.inputRoots);
    const bucket = new Bucket(access, { bucket: address.bucket, prefix: '' });
    const shown = formatObjectAddress(address);
    return downloadObject(bucket, address.key, { maxBytes, shown, signal });
  };
}
