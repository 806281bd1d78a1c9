/** A job as the queue is given it. */
import { randomUUID } from 'node:crypto';
import type { JobsOptions } from 'bullmq';
import {
  type JobData,
  type JobId,
  type ModelId,
  type NewJob,
  parseJobData,
  parseNewJob,
} from '../../core/job/job.ts';
import { UNPLACED } from '../tenants/fair-share.ts';

/** How long finished jobs can be asked for and keep their id taken; results live on in the result store. */
export const RETENTION = {
  completed: { age: 7 * 86_400, count: 100_000 },
  failed: { age: 30 * 86_400, count: 100_000 },
} as const;

/** Between attempts: 2 s, 4 s, 8 s … each shortened at random by up to half. */
const BACKOFF = { type: 'exponential', delay: 2_000, jitter: 0.5 } as const;

/** What some jobs are part of: see `BatchStore`. */
export interface JobParent {
  readonly queue: string;
  readonly id: string;
}

export interface PreparedJob {
  readonly name: string;
  readonly data: JobData;
  readonly opts: JobsOptions & { jobId: JobId };
}

export interface PrepareOptions {
  readonly model: ModelId;
  /** Milliseconds since 1970. */
  readonly submittedAt: number;
  readonly parent?: JobParent | undefined;
  /** Of the parent's queue. */
  readonly prefix: string;
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function prepareJob(
  job: NewJob,
  { model, submittedAt, parent, prefix }: PrepareOptions,
): PreparedJob {
  const { id = randomUUID(), priority, interactive, delayMs, attempts, ...rest } = parseNewJob(job);
  const somebodyWaits = interactive ? { interactive } : {};
  const data = parseJobData({ ...rest, model, submittedAt, priority, ...somebodyWaits });
  return {
    name: data.task,
    data,
    opts: {
      jobId: id,
      priority: interactive ? 0 : UNPLACED,
      delay: delayMs,
      attempts,
      backoff: BACKOFF,
      timestamp: submittedAt,
      removeOnComplete: RETENTION.completed,
      removeOnFail: RETENTION.failed,
      stackTraceLimit: 1,
      ...(parent === undefined ? {} : partOf(parent, prefix)),
    },
  };
}

function partOf({ queue, id }: JobParent, prefix: string): JobsOptions {
  return { parent: { queue: `${prefix}:${queue}`, id }, ignoreDependencyOnFailure: true };
}
