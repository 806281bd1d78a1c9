/** Cancels one job, whatever state it is in. */
import type { Job } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { type JobId, parseJobData } from '../../core/job/job.ts';
import { bullKey } from '../redis/queue-names.ts';
import { announceCancel, clearCancelMark, markCancelled } from './cancellation.ts';
import { failWaiting } from './fail-waiting.ts';
import { CANCELLED_PREFIX } from './failures.ts';

const CANCEL_ATTEMPTS = 5;

/**
 * `cancelled`: it was waiting, or had just been taken, and has ended. `requested`: it runs, and its worker has been told. `finished`: too late.
 */
export type CancelResult = 'cancelled' | 'requested' | 'finished';

export async function cancelJob(
  connection: Redis,
  queue: string,
  job: Job,
  id: JobId,
): Promise<CancelResult> {
  const { submittedAt } = parseJobData(job.data);
  const cancelled = new WavepoolError('CANCELLED', `job ${id}`);
  await markCancelled(connection, queue, id, submittedAt);
  // Between two looks the job may be picked up, or wait for its next attempt.
  for (let attempt = 1; attempt <= CANCEL_ATTEMPTS; attempt++) {
    if (await failWaiting(connection, job, id, cancelled)) {
      await clearCancelMark(connection, queue, id);
      return 'cancelled';
    }
    const state = await job.getState();
    if (state === 'completed' || state === 'failed' || state === 'unknown') {
      await clearCancelMark(connection, queue, id);
      // A worker that takes a marked job ends it, perhaps before it is looked at here.
      return state === 'failed' && (await wasCancelledSince(connection, queue, job, id))
        ? 'cancelled'
        : 'finished';
    }
    if (state === 'active') break;
  }
  await announceCancel(connection, queue, id);
  return 'requested';
}

/** Whether a cancel has ended the job since the caller read it. */
async function wasCancelledSince(
  connection: Redis,
  queue: string,
  job: Job,
  id: JobId,
): Promise<boolean> {
  if (job.finishedOn !== undefined) return false;
  const [reason] = await connection.hmget(bullKey(connection, queue, id), 'failedReason');
  return reason?.startsWith(CANCELLED_PREFIX) ?? false;
}
