/**
 * Jobs that Redis gave to a worker without its knowing: the connection broke between the taking and the answer. Nobody renews
 * their locks, so the stall check would find them in the end; the worker itself can tell at once, for the locks bear its name.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Job, type Worker } from 'bullmq';
import type { Logger } from '../../core/logger.ts';
import { jobsTakenBy } from '../../queue/jobs/taken-jobs.ts';
import type { openConnection } from '../../queue/redis/connection.ts';

/** A job whose answer is still on its way is known by then. */
const SECOND_LOOK_MS = 2_000;

export interface LostRepliesOptions {
  readonly connection: ReturnType<typeof openConnection>;
  readonly worker: Worker;
  /** Whether the worker has the job under this lock. */
  readonly isKnown: (jobId: string, token: string) => boolean;
  readonly logger: Logger;
  /** Between two looks. @defaultValue 2 000 */
  readonly secondLookMs?: number;
}

export class LostReplies {
  readonly #options: LostRepliesOptions;
  readonly #closing = new AbortController();
  #looking: Promise<void> | undefined;

  constructor(options: LostRepliesOptions) {
    this.#options = options;
  }

  /** Call when the connection is back. Gives back what is found twice; never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((err: unknown) => {
        if (this.#closing.signal.aborted) return;
        // The stall check is still there, and the next connection looks again.
        this.#options.logger.debug({ err }, 'jobs could not be looked for');
      })
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  /** Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { worker, logger, secondLookMs = SECOND_LOOK_MS } = this.#options;
    const before = await this.#unknownJobs();
    if (before.size === 0) return;
    await delay(secondLookMs, undefined, { signal: this.#closing.signal });
    for (const [jobId, token] of await this.#unknownJobs()) {
      if (before.get(jobId) !== token) continue;
      const job = await Job.fromId(worker, jobId);
      await job?.moveToWait(token);
      logger.info({ jobId }, 'a job that was taken while the connection broke was given back');
    }
  }

  /** Locks that this worker holds without knowing, by job. */
  async #unknownJobs(): Promise<Map<string, string>> {
    const { connection, worker, isKnown } = this.#options;
    const unknown = new Map<string, string>();
    for (const { jobId, token } of await jobsTakenBy(connection, worker.name, [worker.id])) {
      if (!isKnown(jobId, token)) unknown.set(jobId, token);
    }
    return unknown;
  }
}
