/** A bucket by itself, for whoever reads or writes objects of its own. */
import type { ObjectPlace, S3Settings } from '../core/s3-settings.ts';
import { Bucket, openAccess } from './s3/bucket.ts';

export type { Bucket, ListedObject, StoredObject } from './s3/bucket.ts';

/** Loads the SDK. Asks nothing of the store. */
export async function openBucket(s3: S3Settings, place: ObjectPlace): Promise<Bucket> {
  return new Bucket(await openAccess(s3), place);
}
