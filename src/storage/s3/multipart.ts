/** Large objects: sending them in parts, copying them inside the store, and removing uploads that broke off. */
import { Readable } from 'node:stream';
import { type Bucket, guarded, LONG_REQUEST_MS } from './bucket.ts';
import { toStorageError } from './errors.ts';

/** Each upload holds the parts under way and the one that is being filled in memory. */
const PART_BYTES = 8 * 1024 ** 2;
const PARTS_AT_ONCE = 2;
/** With the largest number of parts this allows more than a terabyte. */
const MOST_PART_BYTES = 128 * 1024 ** 2;
const MAX_PARTS = 10_000;
/** A store copies at most this many bytes in one request. */
const MAX_COPY_BYTES = 5 * 1024 ** 3;
const COPY_PART_BYTES = 1024 ** 3;

/**
 * Sends the bytes while they arrive. When the source or the store fails, nothing is kept.
 * @param maxBytes the most that the source may have; it decides the size of the parts
 */
export async function sendObject(
  bucket: Bucket,
  key: string,
  source: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<void> {
  const { Upload } = await import('@aws-sdk/lib-storage');
  let broken: { readonly error: unknown } | undefined;
  async function* watched(): AsyncGenerator<Uint8Array, void> {
    try {
      yield* source;
    } catch (error) {
      broken = { error };
      throw error;
    }
  }
  const body = Readable.from(watched(), { objectMode: false });
  const upload = new Upload({
    client: bucket.access.client,
    params: { ...bucket.target(key), Body: body },
    partSize: Math.min(Math.max(PART_BYTES, Math.ceil(maxBytes / MAX_PARTS)), MOST_PART_BYTES),
    queueSize: PARTS_AT_ONCE,
  });
  try {
    await upload.done();
  } catch (error) {
    // When the source failed, its error is thrown, and not one of the store.
    throw broken === undefined ? toStorageError(error, `PUT ${bucket.name(key)}`) : broken.error;
  } finally {
    body.destroy();
  }
}

/** Copies an object inside the store. */
export async function copyObject(
  bucket: Bucket,
  from: { readonly key: string; readonly etag: string; readonly bytes: number },
  toKey: string,
): Promise<void> {
  const { sdk, client } = bucket.access;
  const { Bucket: name, Key: sourceKey } = bucket.target(from.key);
  const source = {
    CopySource: `${name}/${sourceKey.split('/').map(encodeURIComponent).join('/')}`,
    // All parts must come from the same version of the object.
    CopySourceIfMatch: from.etag,
  };
  const what = `COPY ${bucket.name(from.key)} to ${bucket.name(toKey)}`;
  const target = bucket.target(toKey);
  if (from.bytes > MAX_COPY_BYTES) {
    await guarded(what, () => copyInParts(bucket, from.bytes, source, toKey));
    return;
  }
  const command = new sdk.CopyObjectCommand({ ...target, ...source });
  await guarded(what, () => client.send(command, { requestTimeout: LONG_REQUEST_MS }));
}

async function copyInParts(
  bucket: Bucket,
  bytes: number,
  source: { readonly CopySource: string; readonly CopySourceIfMatch: string },
  toKey: string,
): Promise<void> {
  const { sdk, client } = bucket.access;
  const target = bucket.target(toKey);
  const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand(target));
  const upload = { ...target, UploadId };
  const long = { requestTimeout: LONG_REQUEST_MS };
  try {
    const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
    for (let start = 0; start < bytes; start += COPY_PART_BYTES) {
      const PartNumber = Parts.length + 1;
      const CopySourceRange = `bytes=${start}-${Math.min(start + COPY_PART_BYTES, bytes) - 1}`;
      const part = { ...upload, ...source, PartNumber, CopySourceRange };
      const copied = await client.send(new sdk.UploadPartCopyCommand(part), long);
      Parts.push({ PartNumber, ETag: copied.CopyPartResult?.ETag });
    }
    const whole = { ...upload, MultipartUpload: { Parts } };
    await client.send(new sdk.CompleteMultipartUploadCommand(whole), long);
  } catch (error) {
    await client.send(new sdk.AbortMultipartUploadCommand(upload)).catch(() => undefined);
    throw error;
  }
}

/** Ends uploads in parts that were begun before this time; their senders have died. */
export async function abortStaleUploads(bucket: Bucket, beforeMs: number): Promise<void> {
  const { sdk, client } = bucket.access;
  const { Bucket: name, Key: Prefix } = bucket.target('');
  const list = new sdk.ListMultipartUploadsCommand({ Bucket: name, Prefix });
  // One page holds a thousand uploads. The next sweep gets the rest.
  const { Uploads = [] } = await guarded(`LIST ${bucket.name('')}`, () => client.send(list));
  for (const { Key, UploadId, Initiated } of Uploads) {
    if (Initiated === undefined || Initiated.getTime() >= beforeMs) continue;
    const abort = new sdk.AbortMultipartUploadCommand({ Bucket: name, Key, UploadId });
    await guarded(`ABORT ${bucket.name('')}`, () => client.send(abort));
  }
}
