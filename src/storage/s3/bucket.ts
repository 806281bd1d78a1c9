/**
 * One bucket below one prefix, through the AWS SDK, with typed errors. Keys are relative to the prefix. The SDK is loaded when
 * the first bucket is opened, so a process that keeps its files in folders does not load it.
 */
import { randomBytes } from 'node:crypto';
import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3';
import { WavepoolError } from '../../core/errors.ts';
import { type ObjectPlace, parseObjectPlace, type S3Settings } from '../../core/s3-settings.ts';
import { isMissing, isPreconditionFailed, toStorageError } from './errors.ts';
import { PatientRetry } from './retry.ts';

type Sdk = typeof import('@aws-sdk/client-s3');

export interface StoredObject {
  readonly bytes: number;
  /** Milliseconds since 1970, by the store's clock. */
  readonly modifiedAtMs: number;
  /** Changes with the content. */
  readonly etag: string;
}

export interface ListedObject extends StoredObject {
  /** Relative to the bucket's prefix. */
  readonly key: string;
}

/** The SDK and its clients. */
export interface S3Access {
  readonly sdk: Sdk;
  readonly client: S3Client;
  /** Signs addresses for clients, who may reach the store under another address. */
  readonly publicClient: S3Client;
  readonly retry: PatientRetry;
}

/** The store answers a copy, and the end of an upload in parts, only when all bytes are in place. */
export const LONG_REQUEST_MS = 900_000;
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_SOCKETS = 64;

/** Loads the SDK. Sends no request to the store. */
export async function openAccess(settings: S3Settings): Promise<S3Access> {
  const sdk = await import('@aws-sdk/client-s3');
  const retry = new PatientRetry(settings.patienceMs);
  const client = new sdk.S3Client(clientConfig(settings, retry));
  const { publicEndpoint: endpoint } = settings;
  const publicClient =
    endpoint === undefined
      ? client
      : new sdk.S3Client(clientConfig({ ...settings, endpoint }, retry));
  return { sdk, client, publicClient, retry };
}

function clientConfig(settings: S3Settings, retryStrategy: PatientRetry): S3ClientConfig {
  const { endpoint, region = endpoint === undefined ? undefined : 'us-east-1' } = settings;
  return {
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(region === undefined ? {} : { region }),
    forcePathStyle: settings.pathStyle,
    retryStrategy,
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: settings.requestTimeoutMs,
      throwOnRequestTimeout: true,
      httpAgent: { keepAlive: true, maxSockets: MAX_SOCKETS },
      httpsAgent: { keepAlive: true, maxSockets: MAX_SOCKETS },
    },
    // Many stores do not know the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  };
}

export class Bucket {
  readonly access: S3Access;
  readonly place: ObjectPlace;

  constructor(access: S3Access, place: ObjectPlace) {
    this.access = access;
    this.place = place;
  }

  /** The same bucket below a longer prefix. */
  below(folder: string): Bucket {
    const { bucket, prefix } = this.place;
    return new Bucket(this.access, parseObjectPlace(`s3://${bucket}/${prefix}${folder}`));
  }

  /** The object's name for requests. */
  target(key: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.place.bucket, Key: this.place.prefix + key };
  }

  /** The object's name for messages. */
  name(key: string): string {
    return `s3://${this.place.bucket}/${this.place.prefix}${key}`;
  }

  /** Writes a small object. */
  async put(key: string, body: string | Uint8Array, contentType?: string): Promise<void> {
    const { sdk, client } = this.access;
    const command = new sdk.PutObjectCommand({
      ...this.target(key),
      Body: body,
      ContentType: contentType,
    });
    await guarded(`PUT ${this.name(key)}`, () => client.send(command));
  }

  /** Writes a small object unless the key has one. Returns whether it was written. */
  async putIfAbsent(key: string, body: string, contentType?: string): Promise<boolean> {
    const { sdk, client } = this.access;
    const command = new sdk.PutObjectCommand({
      ...this.target(key),
      Body: body,
      ContentType: contentType,
      IfNoneMatch: '*',
    });
    return guarded(`PUT ${this.name(key)}`, async () => {
      try {
        await client.send(command);
        return true;
      } catch (error) {
        if (isPreconditionFailed(error)) return false;
        throw error;
      }
    });
  }

  /** The text of a small object. */
  async read(key: string): Promise<string | undefined> {
    const { sdk, client } = this.access;
    return this.#ifThere(`GET ${this.name(key)}`, async () => {
      const { Body } = await client.send(new sdk.GetObjectCommand(this.target(key)));
      return (await Body?.transformToString('utf8')) ?? '';
    });
  }

  async head(key: string): Promise<StoredObject | undefined> {
    const { sdk, client } = this.access;
    return this.#ifThere(`HEAD ${this.name(key)}`, async () => {
      const found = await client.send(new sdk.HeadObjectCommand(this.target(key)));
      return {
        bytes: found.ContentLength ?? 0,
        modifiedAtMs: found.LastModified?.getTime() ?? 0,
        etag: found.ETag ?? '',
      };
    });
  }

  /** Removes an object. It need not exist. */
  async remove(key: string): Promise<void> {
    const { sdk, client } = this.access;
    const command = new sdk.DeleteObjectCommand(this.target(key));
    await guarded(`DELETE ${this.name(key)}`, () => client.send(command));
  }

  /** Everything under a prefix, page by page, sorted by key. */
  async *list(prefix = ''): AsyncGenerator<ListedObject, void> {
    const { sdk, client } = this.access;
    const { Bucket, Key: Prefix } = this.target(prefix);
    let next: string | undefined;
    do {
      const command = new sdk.ListObjectsV2Command({ Bucket, Prefix, ContinuationToken: next });
      const page = await guarded(`LIST ${this.name(prefix)}`, () => client.send(command));
      for (const { Key = '', Size = 0, LastModified, ETag = '' } of page.Contents ?? []) {
        const modifiedAtMs = LastModified?.getTime() ?? 0;
        yield { key: Key.slice(this.place.prefix.length), bytes: Size, modifiedAtMs, etag: ETag };
      }
      next = page.NextContinuationToken;
    } while (next !== undefined);
  }

  /**
   * The first object under a prefix.
   * @returns undefined when there is none
   */
  async first(prefix: string): Promise<ListedObject | undefined> {
    for await (const found of this.list(prefix)) return found;
    return undefined;
  }

  async #ifThere<Result>(what: string, call: () => Promise<Result>): Promise<Result | undefined> {
    return guarded(what, async () => {
      try {
        return await call();
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    });
  }
}

/** Runs a call to the store and turns its errors into those of the error table. */
export async function guarded<Result>(what: string, call: () => Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw toStorageError(error, what);
  }
}

/** Loads the SDK. Sends no request to the store. */
export async function openBucket(s3: S3Settings, place: ObjectPlace): Promise<Bucket> {
  return new Bucket(await openAccess(s3), place);
}

/** A command that starts with a wrong address fails within this time. */
const PROBE_PATIENCE_MS = 5_000;

/**
 * Checks that the store takes our requests, and that the first writer of a key wins. Writes an object and removes it.
 * @throws {WavepoolError} STORAGE_UNSUITABLE, STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE
 */
export async function assertSuitable(bucket: Bucket): Promise<void> {
  const { retry } = bucket.access;
  const { patienceMs } = retry;
  retry.patienceMs = Math.min(patienceMs, PROBE_PATIENCE_MS);
  try {
    await probe(bucket, `probe/${randomBytes(12).toString('hex')}`);
  } finally {
    retry.patienceMs = patienceMs;
  }
}

async function probe(bucket: Bucket, key: string): Promise<void> {
  try {
    await bucket.putIfAbsent(key, 'first');
    if (!(await bucket.putIfAbsent(key, 'second'))) return;
  } catch (error) {
    if (!isNotImplemented(error)) throw error;
  } finally {
    await bucket.remove(key).catch(() => undefined);
  }
  throw new WavepoolError(
    'STORAGE_UNSUITABLE',
    `${bucket.place.bucket}: the store does not heed If-None-Match on PUT, so a job could get two results; use one that does (see docs/operations.md)`,
  );
}

function isNotImplemented(error: unknown): boolean {
  return (
    error instanceof WavepoolError &&
    error.cause instanceof Error &&
    error.cause.name === 'NotImplemented'
  );
}
