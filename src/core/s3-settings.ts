/** Where a bucket is, what lies in it and how its objects are named in settings and requests. */
import { z } from 'zod';
import { WavepoolError } from './errors.ts';

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const MAX_KEY_BYTES = 1_024;

export const BucketName = z.string().regex(BUCKET, 'a bucket is 3 to 63 of a-z, 0-9, ".", "-"');

/** Names an object. Gateways to file systems give `.` and `..` a meaning, so keys with those are not taken. */
export const ObjectKey = z
  .string()
  .min(1)
  .refine((key) => Buffer.byteLength(key) <= MAX_KEY_BYTES, 'a key has at most 1024 bytes')
  .refine((key) => isPlain(key) && !key.endsWith('/'), 'the key does not name an object');

export interface ObjectAddress {
  readonly bucket: string;
  readonly key: string;
}

/** A bucket, or what is below a prefix of it: empty, or ending with a slash. */
export const ObjectPlace = z.strictObject({
  bucket: BucketName,
  prefix: z
    .string()
    .max(512)
    .refine((prefix) => prefix === '' || (isPlain(prefix) && prefix.endsWith('/'))),
});
export type ObjectPlace = z.infer<typeof ObjectPlace>;

export const S3Settings = z.strictObject({
  /** Results, uploads and journals are here; without it, in local folders. */
  place: ObjectPlace.optional(),
  /** Inputs may be named by object below these; without any, none may. */
  inputRoots: z.array(ObjectPlace).default([]),
  /** Of a store other than Amazon's. */
  endpoint: z.url({ protocol: /^https?$/ }).optional(),
  /** Under which clients reach the store, where that is another address. */
  publicEndpoint: z.url({ protocol: /^https?$/ }).optional(),
  /** @defaultValue what the SDK finds, or `us-east-1` with an endpoint */
  region: z.string().min(1).optional(),
  /** `ENDPOINT/BUCKET/KEY` in place of `BUCKET.ENDPOINT/KEY`. */
  pathStyle: z.boolean().default(false),
  /** From a request to the head of its answer. */
  requestTimeoutMs: z.int().min(1).default(30_000),
  /** A request is repeated for so long while the store is away. */
  patienceMs: z.int().min(0).default(120_000),
});
export type S3Settings = z.infer<typeof S3Settings>;

/** Nothing in a bucket. */
export const NO_S3: S3Settings = S3Settings.parse({});

/**
 * Reads `s3://BUCKET` or `s3://BUCKET/PREFIX`.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function parseObjectPlace(text: string): ObjectPlace {
  const [, bucket = '', path = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(text) ?? [];
  const trimmed = path.replace(/\/+$/, '');
  const parsed = ObjectPlace.safeParse({ bucket, prefix: trimmed === '' ? '' : `${trimmed}/` });
  if (parsed.success) return parsed.data;
  throw new WavepoolError('INVALID_REQUEST', `${text} is not s3://BUCKET or s3://BUCKET/PREFIX`);
}

/**
 * Reads `s3://BUCKET/KEY`.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function parseObjectAddress(text: string): ObjectAddress {
  const [, bucket = '', key = ''] = /^s3:\/\/([^/]+)\/(.*)$/s.exec(text) ?? [];
  if (BUCKET.test(bucket) && ObjectKey.safeParse(key).success) return { bucket, key };
  throw new WavepoolError('INVALID_REQUEST', `${text} is not s3://BUCKET/KEY`);
}

/** Whether something that was typed is an address of this kind, well formed or not. */
export function isObjectAddress(given: string): boolean {
  return given.startsWith('s3://');
}

export function formatObjectAddress({ bucket, key }: ObjectAddress): string {
  return `s3://${bucket}/${key}`;
}

/** @throws {WavepoolError} INPUT_FORBIDDEN, whether or not there is such an object */
export function assertInsideRoots(address: ObjectAddress, roots: readonly ObjectPlace[]): void {
  const { bucket, key } = address;
  if (roots.some((root) => root.bucket === bucket && key.startsWith(root.prefix))) return;
  throw new WavepoolError('INPUT_FORBIDDEN', formatObjectAddress(address));
}

function isPlain(key: string): boolean {
  if (key.startsWith('/') || key.includes('\0')) return false;
  return key.split('/').every((part) => part !== '.' && part !== '..');
}
