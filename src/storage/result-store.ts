import type { JobResult } from '../core/results/job-result.ts';
import type { JournalStore } from './journals.ts';

export interface Commit {
  /** False when the job already had a result: that one stays. */
  readonly committed: boolean;
  /** Where the job's result is, whoever wrote it. */
  readonly key: string;
}

/** Keeps one result per job. The first commit wins, for ever. */
export interface ResultStore {
  /** Of jobs that have no result yet. */
  readonly journals: JournalStore;
  /**
   * Writes the result, durably and whole, unless there is one.
   * @throws {WavepoolError} STORAGE_FULL; of a bucket STORAGE_UNAVAILABLE, STORAGE_FORBIDDEN
   */
  commit(jobId: string, result: JobResult): Promise<Commit>;
  /** @throws {WavepoolError} RESULT_NOT_FOUND; INTERNAL when what is stored is no result */
  read(key: string): Promise<JobResult>;
  /** Forgets the job's journals, too. Whether there was a result. */
  remove(key: string): Promise<boolean>;
  /** The key under which a job's result lies or would lie. */
  keyOf(jobId: string): string;
  /**
   * An address under which anybody can read the stored JSON for some minutes; only where the store itself can be reached.
   * @throws {WavepoolError} RESULT_NOT_FOUND
   */
  link?(key: string): Promise<string>;
}
