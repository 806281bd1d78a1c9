/** A job as a reader sees it. */
import type { Job } from 'bullmq';
import { WavepoolError } from '../../core/errors.ts';
import { JobData, JobOutcome, JobProgress, parseJobData } from '../../core/job/job.ts';
import { isTooNew, JOB_SCHEMA_VERSION } from '../../core/job/job-version.ts';
import { parseLeniently } from '../../core/lenient-parse.ts';
import { isStaged } from '../tenants/fair-share.ts';
import { failureOf, type JobFailure } from './failures.ts';

/** `cancelled` is a failure with the code CANCELLED. */
export const JOB_STATES = [
  'waiting',
  'delayed',
  'running',
  'completed',
  'failed',
  'cancelled',
] as const;
export type JobState = (typeof JOB_STATES)[number];

export interface JobView {
  readonly id: string;
  readonly state: JobState;
  readonly data: JobData;
  /** As the producer gave it. */
  readonly priority: number;
  /** Attempts that have ended. */
  readonly attemptsMade: number;
  readonly progress: JobProgress | undefined;
  /** Milliseconds since 1970. */
  readonly startedAt: number | undefined;
  readonly finishedAt: number | undefined;
  /** When completed. */
  readonly outcome: JobOutcome | undefined;
  /** When failed or cancelled. */
  readonly failure: JobFailure | undefined;
}

/** How a job ended, for whoever waits for it. */
export type JobEnd =
  | { readonly kind: 'completed'; readonly outcome: JobOutcome }
  | { readonly kind: 'failed'; readonly failure: JobFailure }
  /** The queue no longer knows the job. */
  | { readonly kind: 'removed' };

/** The end that a return value stands for; one that is no outcome is a failure of the worker that wrote it. */
export function completedEnd(returnValue: unknown): JobEnd {
  const parsed = JobOutcome.safeParse(returnValue);
  if (parsed.success) return { kind: 'completed', outcome: parsed.data };
  const { message } = new WavepoolError('INTERNAL', 'the worker returned no outcome');
  return { kind: 'failed', failure: { code: 'INTERNAL', message, retryable: false } };
}

export function failedEnd(failedReason: string): JobEnd {
  return { kind: 'failed', failure: failureOf(failedReason) };
}

/** Undefined in any other state. A completed job may still carry the reason of an attempt that failed. */
function endOf(job: Job, bullState: string): JobEnd | undefined {
  if (bullState === 'completed') return completedEnd(job.returnvalue);
  return bullState === 'failed' ? failedEnd(job.failedReason) : undefined;
}

function stateOf(job: Job, bullState: string, end: JobEnd | undefined): JobState | undefined {
  switch (bullState) {
    case 'waiting':
    case 'prioritized':
    case 'waiting-children':
      return 'waiting';
    case 'delayed':
      return isStaged(job) ? 'waiting' : 'delayed';
    case 'active':
      return 'running';
    case 'completed':
      return 'completed';
    case 'failed':
      return end?.kind === 'failed' && end.failure.code === 'CANCELLED' ? 'cancelled' : 'failed';
    default:
      return undefined;
  }
}

const READ_ATTEMPTS = 5;

/**
 * A job's state is asked for after its data were read: one that ended in between is read once more, for its end is not in
 * the data of before.
 * @returns undefined when the job vanished in the meantime
 */
export async function viewOf(
  job: Job,
  id: string,
  readAgain: () => Promise<Job | undefined>,
): Promise<JobView | undefined> {
  let latest: Job | undefined = job;
  for (let attempt = 1; latest !== undefined && attempt <= READ_ATTEMPTS; attempt += 1) {
    const bullState = await latest.getState();
    const hasEnded = bullState === 'completed' || bullState === 'failed';
    if (!hasEnded || latest.finishedOn !== undefined) return viewIn(latest, id, bullState);
    latest = await readAgain();
  }
  return undefined;
}

function viewIn(job: Job, id: string, bullState: string): JobView | undefined {
  const end = endOf(job, bullState);
  const state = stateOf(job, bullState, end);
  if (state === undefined) return undefined;
  const data = readJobData(job.data);
  return {
    id,
    state,
    data,
    priority: data.priority ?? job.priority,
    attemptsMade: job.attemptsMade,
    progress: JobProgress.safeParse(job.progress).data,
    startedAt: job.processedOn,
    finishedAt: end === undefined ? undefined : job.finishedOn,
    outcome: end?.kind === 'completed' ? end.outcome : undefined,
    failure: end?.kind === 'failed' ? end.failure : undefined,
  };
}

/**
 * Of a job that a newer producer made, what this version understands.
 * @throws {WavepoolError} JOB_TOO_NEW when that is not enough, INVALID_REQUEST
 */
function readJobData(raw: unknown): JobData {
  if (!isTooNew(raw)) return parseJobData(raw);
  try {
    return parseLeniently(JobData, { ...raw, schemaVersion: JOB_SCHEMA_VERSION }, 'job data');
  } catch {
    return parseJobData(raw);
  }
}
