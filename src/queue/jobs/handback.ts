/** What a supervisor does with the jobs of a worker process that died. */
import type { Job, Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { type JobData, type JobProgress, parseJobData } from '../../core/job/job.ts';
import type { Blame, HeldJob } from '../../core/worker/ipc.ts';
import { bullKey } from '../redis/queue-names.ts';
import { toQueueError } from './failures.ts';
import { jobsTakenBy } from './taken-jobs.ts';

/** A job that was held in this many crashes is the likely cause and fails. */
export const CRASH_LIMIT = 2;
/** A worker that is killed from outside is rarely the doing of its jobs; one that is killed for each try of a job is. */
export const KILL_LIMIT = 5;

/** `skipped`: the job is no longer under that token; it finished, or somebody else has it. */
export type HandBackResult = 'waiting' | 'failed' | 'skipped';

const HANDED_BACK: JobProgress = {
  phase: 'handed-back',
  processedSeconds: 0,
  totalSeconds: null,
  segmentsDone: 0,
};

async function isHeld(
  connection: Redis,
  queue: Queue,
  { jobId, token }: HeldJob,
): Promise<boolean> {
  return (await connection.get(bullKey(connection, queue.name, `${jobId}:lock`))) === token;
}

/** Counts this death once, however often it is reported. */
async function countDeath(job: Job, token: string, blame: Blame): Promise<JobData> {
  const data = parseJobData(job.data);
  if (blame === 'none' || data.lastCrashToken === token) return data;
  const { crashCount, killCount = 0 } = data;
  const count = blame === 'crashed' ? { crashCount: crashCount + 1 } : { killCount: killCount + 1 };
  const counted = { ...data, ...count, lastCrashToken: token };
  await job.updateData(counted);
  return counted;
}

async function handBackOne(
  job: Job,
  { jobId, token, blame = 'crashed' }: HeldJob,
): Promise<HandBackResult> {
  // The count is raised first: once the job waits, another worker may take it at any moment.
  const { crashCount, killCount = 0 } = await countDeath(job, token, blame);
  if (blame !== 'none' && (crashCount >= CRASH_LIMIT || killCount >= KILL_LIMIT)) {
    const times = crashCount + killCount;
    const error = new WavepoolError('WORKER_CRASHED', `job ${jobId}, ${times} times`);
    await job.moveToFailed(toQueueError(error), token);
    return 'failed';
  }
  await job.updateProgress(HANDED_BACK);
  await job.moveToWait(token);
  return 'waiting';
}

/**
 * Puts the jobs back to the front of the queue at once instead of after the stall check, and raises the `crashCount` or
 * `killCount` of those that are to blame; those at the limit fail with WORKER_CRASHED. May be repeated. They run again in the order given; among jobs of one
 * priority other than 0, BullMQ orders what is put back by job id.
 * @param held in the order in which the worker took them
 * @param workerIds BullMQ's ids of the dead: what else lies under their locks had not been started
 * @throws {AggregateError} after all were tried, when some could not be handed back; the stall check will
 */
export async function handBack(
  queue: Queue,
  connection: Redis,
  held: readonly HeldJob[],
  workerIds: readonly string[] = [],
): Promise<Map<string, HandBackResult>> {
  const results = new Map<string, HandBackResult>();
  const errors: unknown[] = [];
  const known = new Set(held.map(({ jobId }) => jobId));
  const untold = (await jobsTakenBy(connection, queue.name, workerIds))
    .filter(({ jobId }) => !known.has(jobId))
    .map((job): HeldJob => ({ ...job, blame: 'none' }));
  // Each goes to the very front, so the first one goes last.
  for (const entry of [...untold, ...held.toReversed()]) {
    try {
      results.set(entry.jobId, await handBackIfHeld(queue, connection, entry));
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'some jobs could not be handed back');
  return results;
}

async function handBackIfHeld(
  queue: Queue,
  connection: Redis,
  entry: HeldJob,
): Promise<HandBackResult> {
  const job: Job | undefined = await queue.getJob(entry.jobId);
  if (job === undefined || !(await isHeld(connection, queue, entry))) return 'skipped';
  try {
    return await handBackOne(job, entry);
  } catch (error) {
    // The lock may have run out, or passed on, since it was looked at.
    if (await isHeld(connection, queue, entry)) throw error;
    return 'skipped';
  }
}
