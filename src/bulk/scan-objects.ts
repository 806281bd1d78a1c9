/**
 * Lists objects of buckets as the inputs of a run, page by page: memory does not grow with a bucket. The output of an object has
 * the object's whole name, extension included, so that none depends on what else is there.
 */
import path from 'node:path';
import { WavepoolError } from '../core/errors.ts';
import {
  formatObjectAddress,
  ObjectKey,
  type ObjectPlace,
  parseObjectPlace,
  type S3Settings,
} from '../core/s3-settings.ts';
import { type Bucket, type ListedObject, openBucket } from '../storage/s3/bucket.ts';
import { hasMediaExtension } from './media-kind.ts';
import { folderNames } from './output-names.ts';
import { type ScanEntry, type ScannedInput, STATE_FOLDER } from './scan.ts';

/** An `s3://` argument of a run, looked at. */
export interface ObjectRoot {
  /** What is to be read: all below it, or one object of it. */
  readonly place: ObjectPlace;
  /** Of the one object, relative to the place. */
  readonly name?: string;
}

export interface ObjectScanOptions {
  readonly s3: S3Settings;
  /** Where the outputs go, if that is in a bucket; not listed unless it is itself an argument. */
  readonly out?: ObjectPlace | undefined;
  /** Take every object for an input but hidden ones: audio without a header tells nothing by its name. */
  readonly everyFile?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Whoever starts a command wants to hear soon that the address is wrong. */
const FIRST_LOOK_MS = 5_000;

/**
 * Finds out what each address names: an object, or else all objects below it. What lies below another one is listed with that.
 * @throws {WavepoolError} INVALID_REQUEST, INPUT_NOT_FOUND, STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE, STORAGE_UNSUITABLE
 */
export async function resolveObjectRoots(
  addresses: readonly string[],
  s3: S3Settings,
): Promise<ObjectRoot[]> {
  const hasty = { ...s3, patienceMs: Math.min(s3.patienceMs, FIRST_LOOK_MS) };
  const roots = new Map<string, ObjectRoot>();
  for (const address of addresses) {
    const root = await resolveRoot(address, hasty);
    roots.set(pathOf(root), root);
  }
  const found = [...roots.values()];
  return found.filter((root) => !found.some((other) => other !== root && isBelow(root, other)));
}

function pathOf({ place: { bucket, prefix }, name = '' }: ObjectRoot): string {
  return `${bucket}/${prefix}${name}`;
}

function isBelow(root: ObjectRoot, other: ObjectRoot): boolean {
  return other.name === undefined && pathOf(root).startsWith(pathOf(other));
}

async function resolveRoot(address: string, s3: S3Settings): Promise<ObjectRoot> {
  const place = parseObjectPlace(address);
  const { bucket, prefix } = place;
  if (prefix !== '' && !address.endsWith('/')) {
    const key = prefix.slice(0, -1);
    const slash = key.lastIndexOf('/') + 1;
    const parent = { bucket, prefix: key.slice(0, slash) };
    const name = key.slice(slash);
    const found = await (await openBucket(s3, parent)).head(name);
    if (found !== undefined) return { place: parent, name };
  }
  const first = await (await openBucket(s3, place)).first('');
  if (first !== undefined) return { place };
  throw new WavepoolError('INPUT_NOT_FOUND', `${address} (no such object, and none below it)`);
}

/** @throws {WavepoolError} STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE, STORAGE_UNSUITABLE */
export async function* scanObjects(
  roots: readonly ObjectRoot[],
  options: ObjectScanOptions,
): AsyncGenerator<ScanEntry> {
  const folders = folderNames(roots.map(({ place }) => pathOf({ place })));
  const tops = roots.length === 1 ? [''] : folders;
  for (const [at, { place, name }] of roots.entries()) {
    const bucket = await openBucket(options.s3, place);
    const top = tops[at] ?? '';
    if (name === undefined) yield* scanBelow(bucket, top, options);
    else yield* scanOne(bucket, name, top, options);
  }
}

async function* scanOne(
  bucket: Bucket,
  name: string,
  top: string,
  options: ObjectScanOptions,
): AsyncGenerator<ScanEntry> {
  const found = await bucket.head(name);
  if (found !== undefined) yield entryOf(bucket, { ...found, key: name }, top, options);
}

async function* scanBelow(
  bucket: Bucket,
  top: string,
  options: ObjectScanOptions,
): AsyncGenerator<ScanEntry> {
  for await (const object of bucket.list()) {
    options.signal?.throwIfAborted();
    if (isOurs(bucket.place, object.key, options.out)) continue;
    yield entryOf(bucket, object, top, options);
  }
}

/** What runs have written is no input. */
function isOurs({ bucket, prefix }: ObjectPlace, key: string, out?: ObjectPlace): boolean {
  if (key.split('/').includes(STATE_FOLDER)) return true;
  if (out === undefined || out.bucket !== bucket || out.prefix === prefix) return false;
  return out.prefix.startsWith(prefix) && `${prefix}${key}`.startsWith(out.prefix);
}

function entryOf(
  { place }: Bucket,
  { key, bytes, modifiedAtMs, etag }: ListedObject,
  top: string,
  { everyFile }: ObjectScanOptions,
): ScanEntry {
  const object = { bucket: place.bucket, key: place.prefix + key, etag };
  const shown = formatObjectAddress(object);
  const name = path.posix.basename(key);
  const isInput = everyFile === true ? !name.startsWith('.') : hasMediaExtension(name);
  // Some tools mark folders by empty objects.
  if (key.endsWith('/') || !isInput) return { kind: 'skipped', path: shown };
  if (!namesFile(object.key)) {
    const { code, message } = new WavepoolError(
      'INVALID_REQUEST',
      `no output can have the name of this object: ${shown}`,
    );
    return { kind: 'problem', path: shown, code, message };
  }
  const folder = path.posix.dirname(key);
  return {
    kind: 'input',
    path: shown,
    object,
    bytes,
    mtimeMs: modifiedAtMs,
    outputFolder: path.join(top, folder === '.' ? '' : folder),
    outputName: name,
  } satisfies ScannedInput;
}

/** Two keys that differ in their slashes only would be one path. */
function namesFile(key: string): boolean {
  return ObjectKey.safeParse(key).success && !key.split('/').includes('');
}
