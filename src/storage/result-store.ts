/** What a store of results does, and what the stores in folders and buckets share. */
import { WavepoolError } from '../core/errors.ts';
import { type JobResult, parseJobResult } from '../core/results/job-result.ts';
import { hashOfJobId, type JournalStore } from './journals.ts';

export interface Commit {
  /** False when the job already had a result. Then that one stays. */
  readonly committed: boolean;
  /** The key of the job's result, whoever wrote it. */
  readonly key: string;
}

/** Keeps one result per job. The first commit wins. */
export interface ResultStore {
  /** The journals of jobs that have no result yet. */
  readonly journals: JournalStore;
  /**
   * Writes the whole result durably, unless the job has one.
   * @throws {WavepoolError} STORAGE_FULL; for a bucket STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  commit(jobId: string, result: JobResult): Promise<Commit>;
  /** @throws {WavepoolError} RESULT_NOT_FOUND; INTERNAL when the stored bytes are not a result */
  read(key: string): Promise<JobResult>;
  /** Removes the result and the job's journals. Returns whether there was a result. */
  remove(key: string): Promise<boolean>;
  /** The key of a job's result, whether it exists or not. */
  keyOf(jobId: string): string;
  /**
   * An address under which anybody can read the stored JSON for some minutes. Only stores that clients can reach have it.
   * @throws {WavepoolError} RESULT_NOT_FOUND
   */
  link?(key: string): Promise<string>;
}

const KEY = /^[0-9a-f]{2}\/([0-9a-f]{64})\.json$/;

/**
 * Folders and buckets use the same keys, so results can be moved. Ids are hashed, because some file systems do not tell upper
 * from lower case. The first two digits spread the files over folders.
 */
export function resultKey(jobId: string): string {
  const hash = hashOfJobId(jobId);
  return `${hash.slice(0, 2)}/${hash}.json`;
}

/**
 * The hash in a key. Keys come from the queue: one that this store did not make must not reach another file or object.
 * @throws {WavepoolError} RESULT_NOT_FOUND
 */
export function hashInKey(key: string): string {
  const [, hash] = KEY.exec(key) ?? [];
  if (hash === undefined) throw new WavepoolError('RESULT_NOT_FOUND', key);
  return hash;
}

/**
 * @param where the place of the result, for the message
 * @throws {WavepoolError} INTERNAL
 */
export function parseStoredResult(text: string, where: string): JobResult {
  let stored: unknown;
  try {
    stored = JSON.parse(text);
  } catch (cause) {
    throw new WavepoolError('INTERNAL', `the stored result is damaged: ${where}`, { cause });
  }
  return parseJobResult(stored);
}
