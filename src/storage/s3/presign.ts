/** Addresses that let others reach one object for a while, without credentials of their own. */
import { type Bucket, guarded } from './bucket.ts';

export interface SignedRequest {
  readonly url: string;
  /** Must be sent as they are. */
  readonly headers: Readonly<Record<string, string>>;
}

export async function presignDownload(
  bucket: Bucket,
  key: string,
  expiresIn: number,
): Promise<string> {
  const { sdk, publicClient } = bucket.access;
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  const command = new sdk.GetObjectCommand(bucket.target(key));
  return guarded(`sign ${bucket.name(key)}`, () =>
    getSignedUrl(publicClient, command, { expiresIn }),
  );
}

/** A PUT of so many bytes. The store checks the length and, where it can, the hash; whoever takes the object checks both. */
export async function presignUpload(
  bucket: Bucket,
  key: string,
  { bytes, sha256 }: { readonly bytes: number; readonly sha256: string },
  expiresIn: number,
): Promise<SignedRequest> {
  const { sdk, publicClient } = bucket.access;
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  const checksum = Buffer.from(sha256, 'hex').toString('base64');
  const command = new sdk.PutObjectCommand({
    ...bucket.target(key),
    ContentLength: bytes,
    ChecksumSHA256: checksum,
  });
  const name = 'x-amz-checksum-sha256';
  const url = await guarded(`sign ${bucket.name(key)}`, () =>
    getSignedUrl(publicClient, command, {
      expiresIn,
      signableHeaders: new Set(['content-length', name]),
      unhoistableHeaders: new Set([name]),
    }),
  );
  return { url, headers: { [name]: checksum } };
}
