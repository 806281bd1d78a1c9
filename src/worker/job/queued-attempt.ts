/**
 * What the processor of a queued job is given. The signal and the logger are made when they are asked for. A class, because an
 * object literal with accessors has a hidden class of its own each time, and those pile up in the old generation.
 */
import type { Logger } from '../../core/logger.ts';
import type { Interruption } from './interruption.ts';
import type { JobAttempt } from './job-processor.ts';

export class QueuedAttempt implements JobAttempt {
  readonly jobId: JobAttempt['jobId'];
  readonly data: JobAttempt['data'];
  readonly priority: JobAttempt['priority'];
  readonly attempt: JobAttempt['attempt'];
  readonly onProgress: JobAttempt['onProgress'];
  readonly onSegment: JobAttempt['onSegment'];
  readonly openParts: JobAttempt['openParts'];
  readonly assertOwned: JobAttempt['assertOwned'];
  readonly #interruption: Interruption;
  readonly #loggerOf: () => Logger;

  constructor(
    members: Omit<JobAttempt, 'signal' | 'logger'>,
    interruption: Interruption,
    loggerOf: () => Logger,
  ) {
    this.jobId = members.jobId;
    this.data = members.data;
    this.priority = members.priority;
    this.attempt = members.attempt;
    this.onProgress = members.onProgress;
    this.onSegment = members.onSegment;
    this.openParts = members.openParts;
    this.assertOwned = members.assertOwned;
    this.#interruption = interruption;
    this.#loggerOf = loggerOf;
  }

  get signal(): AbortSignal {
    return this.#interruption.signal;
  }

  get logger(): Logger {
    return this.#loggerOf();
  }
}
