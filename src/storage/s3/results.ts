import { WavepoolError } from '../../core/errors.ts';
import { type JobResult, parseJobResult } from '../../core/results/job-result.ts';
import { hashOfJobId } from '../journals.ts';
import type { Commit, ResultStore } from '../result-store.ts';
import type { Bucket } from './bucket.ts';
import { S3Journals } from './journals.ts';
import { presignDownload } from './presign.ts';

const JSON_TYPE = 'application/json';
const KEY = /^[0-9a-f]{2}\/([0-9a-f]{64})\.json$/;
/** Long enough to follow a redirect over a slow line, short enough for logs. */
const LINK_LIFE_SECONDS = 300;

/** Results as objects: the store writes the first one under a key and refuses every other. */
export class S3ResultStore implements ResultStore {
  readonly journals: S3Journals;
  readonly #bucket: Bucket;

  /** @param bucket `results` is put below its prefix, and `journals` */
  constructor(bucket: Bucket, now: () => number = Date.now) {
    this.#bucket = bucket.below('results');
    this.journals = new S3Journals(bucket.below('journals'), now);
  }

  /** The same as in a folder, so that results can be moved. */
  keyOf(jobId: string): string {
    const hash = hashOfJobId(jobId);
    return `${hash.slice(0, 2)}/${hash}.json`;
  }

  /**
   * An answer that got lost is asked for again, and then finds the result of the first try: `committed` is false, and what is
   * stored is the same.
   */
  async commit(jobId: string, result: JobResult): Promise<Commit> {
    const key = this.keyOf(jobId);
    const committed = await this.#bucket.putIfAbsent(key, JSON.stringify(result), JSON_TYPE);
    return { committed, key };
  }

  async read(key: string): Promise<JobResult> {
    assertKey(key);
    const text = await this.#bucket.read(key);
    if (text === undefined) throw new WavepoolError('RESULT_NOT_FOUND', key);
    let stored: unknown;
    try {
      stored = JSON.parse(text);
    } catch (cause) {
      const where = this.#bucket.name(key);
      throw new WavepoolError('INTERNAL', `the stored result is damaged: ${where}`, { cause });
    }
    return parseJobResult(stored);
  }

  async remove(key: string): Promise<boolean> {
    const [, hash = ''] = assertKey(key);
    await this.journals.removeByHash(hash);
    // The store does not tell whether there was one.
    const found = await this.#bucket.head(key);
    await this.#bucket.remove(key);
    return found !== undefined;
  }

  async link(key: string): Promise<string> {
    assertKey(key);
    if ((await this.#bucket.head(key)) === undefined) {
      throw new WavepoolError('RESULT_NOT_FOUND', key);
    }
    return presignDownload(this.#bucket, key, LINK_LIFE_SECONDS);
  }
}

/** Keys come from the queue: one that is not ours must not reach another object. */
function assertKey(key: string): RegExpExecArray {
  const parts = KEY.exec(key);
  if (parts === null) throw new WavepoolError('RESULT_NOT_FOUND', key);
  return parts;
}
