import { WavepoolError } from '../../core/errors.ts';
import type { JobResult } from '../../core/results/job-result.ts';
import {
  type Commit,
  hashInKey,
  parseStoredResult,
  type ResultStore,
  resultKey,
} from '../result-store.ts';
import { type Bucket, guarded } from './bucket.ts';
import { S3Journals } from './journals.ts';

const JSON_TYPE = 'application/json';
/** This is enough to follow a redirect over a slow line. After that, an address in a log is useless. */
const LINK_LIFE_SECONDS = 300;

/** Results as objects. The store accepts the first object under a key and refuses every other. */
export class S3ResultStore implements ResultStore {
  readonly journals: S3Journals;
  readonly #bucket: Bucket;

  /** @param bucket results and journals are stored below its prefix, in `results` and `journals` */
  constructor(bucket: Bucket, now: () => number = Date.now) {
    this.#bucket = bucket.below('results');
    this.journals = new S3Journals(bucket.below('journals'), now);
  }

  keyOf(jobId: string): string {
    return resultKey(jobId);
  }

  /**
   * When the answer to a PUT is lost, the PUT is repeated and finds the result of the first one. Then `committed` is false,
   * although the stored result is this one.
   */
  async commit(jobId: string, result: JobResult): Promise<Commit> {
    const key = this.keyOf(jobId);
    const committed = await this.#bucket.putIfAbsent(key, JSON.stringify(result), JSON_TYPE);
    return { committed, key };
  }

  async read(key: string): Promise<JobResult> {
    hashInKey(key);
    const text = await this.#bucket.read(key);
    if (text === undefined) throw new WavepoolError('RESULT_NOT_FOUND', key);
    return parseStoredResult(text, this.#bucket.name(key));
  }

  async remove(key: string): Promise<boolean> {
    await this.journals.removeByHash(hashInKey(key));
    // The answer to a DELETE does not say whether the object existed.
    const found = await this.#bucket.head(key);
    await this.#bucket.remove(key);
    return found !== undefined;
  }

  async link(key: string): Promise<string> {
    hashInKey(key);
    if ((await this.#bucket.head(key)) === undefined) {
      throw new WavepoolError('RESULT_NOT_FOUND', key);
    }
    return presignDownload(this.#bucket, key, LINK_LIFE_SECONDS);
  }
}

/** An address under which anybody can read the object for so many seconds. */
async function presignDownload(bucket: Bucket, key: string, expiresIn: number): Promise<string> {
  const { sdk, publicClient } = bucket.access;
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  const command = new sdk.GetObjectCommand(bucket.target(key));
  return guarded(`sign ${bucket.name(key)}`, () =>
    getSignedUrl(publicClient, command, { expiresIn }),
  );
}
