/**
 * One bucket, below one prefix, through the AWS SDK: what the stores of this folder need of it, with typed errors. Keys are
 * relative to the prefix. The SDK is loaded when the first bucket is opened: whoever keeps files in folders does not pay for it.
 */
import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3';
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

/** A client of the SDK with what goes with it. */
export interface S3Access {
  readonly sdk: Sdk;
  readonly client: S3Client;
  /** Signs addresses for others, who may reach the store elsewhere. */
  readonly publicClient: S3Client;
  readonly retry: PatientRetry;
}

/** Copies and completed uploads answer when all bytes are in place. */
export const LONG_REQUEST_MS = 900_000;
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_SOCKETS = 64;

/** Loads the SDK. Asks nothing of the store. */
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
    // The newer checksums are more than many stores understand.
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

  /** A part of this bucket. */
  below(folder: string): Bucket {
    const { bucket, prefix } = this.place;
    return new Bucket(this.access, parseObjectPlace(`s3://${bucket}/${prefix}${folder}`));
  }

  /** As a request names an object. */
  target(key: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.place.bucket, Key: this.place.prefix + key };
  }

  /** For messages. */
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
    await this.#guard(`PUT ${this.name(key)}`, () => client.send(command));
  }

  /** Writes a small object unless there is one under the key; whether it was written. */
  async putIfAbsent(key: string, body: string, contentType?: string): Promise<boolean> {
    const { sdk, client } = this.access;
    const command = new sdk.PutObjectCommand({
      ...this.target(key),
      Body: body,
      ContentType: contentType,
      IfNoneMatch: '*',
    });
    return this.#guard(`PUT ${this.name(key)}`, async () => {
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

  /** Nothing there is no error. */
  async remove(key: string): Promise<void> {
    const { sdk, client } = this.access;
    const command = new sdk.DeleteObjectCommand(this.target(key));
    await this.#guard(`DELETE ${this.name(key)}`, () => client.send(command));
  }

  /** Everything under a prefix, page by page, sorted by key. */
  async *list(prefix = ''): AsyncGenerator<ListedObject, void> {
    const { sdk, client } = this.access;
    const { Bucket, Key: Prefix } = this.target(prefix);
    let next: string | undefined;
    do {
      const command = new sdk.ListObjectsV2Command({ Bucket, Prefix, ContinuationToken: next });
      const page = await this.#guard(`LIST ${this.name(prefix)}`, () => client.send(command));
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
    return this.#guard(what, async () => {
      try {
        return await call();
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    });
  }

  async #guard<Result>(what: string, call: () => Promise<Result>): Promise<Result> {
    return guarded(what, call);
  }
}

/** Runs a call to the store; what it throws is of the error table. */
export async function guarded<Result>(what: string, call: () => Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw toStorageError(error, what);
  }
}
