/** How errors travel through the queue: as `CODE: message`, retried or not by the error table. */
import { UnrecoverableError } from 'bullmq';
import {
  type ErrorCode,
  errorRow,
  formatFailure,
  parseFailure,
  toWavepoolError,
} from '../../core/errors.ts';

export interface JobFailure {
  readonly code: ErrorCode;
  readonly message: string;
  /** Whether the same job may succeed later without anything being changed. */
  readonly retryable: boolean;
}

/** How the reason of a cancelled job starts. */
export const CANCELLED_PREFIX = 'CANCELLED: ';

/** BullMQ's own words for a job whose worker vanished too often. */
const LOST_TOO_OFTEN = /^job (stalled|started) more than allowable limit/;

/** A failed job's reason. */
export function failureOf(failedReason: string): JobFailure {
  const { code, message } = LOST_TOO_OFTEN.test(failedReason)
    ? { code: 'WORKER_CRASHED' as const, message: failedReason }
    : parseFailure(failedReason);
  return { code, message, retryable: errorRow(code).retryable };
}

/** What a processor throws, in the form that BullMQ stores; the one place that decides about retries. */
export function toQueueError(thrown: unknown): Error {
  const error = toWavepoolError(thrown);
  const text = formatFailure(error);
  if (error.retryable) return new Error(text, { cause: error });
  const final = new UnrecoverableError(text);
  final.cause = error;
  return final;
}
