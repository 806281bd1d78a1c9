/**
 * Jobs by their deadlines. A worker ends a job whose deadline passes while it has it; this index is for jobs that wait while
 * no worker is alive.
 */
import { Job, type Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { type JobData, type JobId, JobLimits } from '../../core/job/job.ts';
import { deadlinesKey } from '../redis/queue-names.ts';
import { failWaiting } from './cancellation.ts';

const MOST_AT_ONCE = 500;
/** A job that runs ends by its worker's clock; should that die, the job waits again. */
const LOOK_AGAIN_MS = 30_000;
/** The index is written before the job. */
const NOT_ADDED_YET_MS = 60_000;

export interface JobDeadline {
  readonly id: JobId;
  readonly data: JobData;
}

/** Call before the jobs are added; those without a deadline are left out. */
export async function rememberDeadlines(
  connection: Redis,
  queue: string,
  jobs: readonly JobDeadline[],
): Promise<void> {
  const entries = jobs.flatMap(({ id, data: { clocks } }) =>
    clocks.deadlineAt === undefined ? [] : [clocks.deadlineAt, memberOf(queue, id)],
  );
  if (entries.length > 0) await connection.zadd(deadlinesKey(connection), ...entries);
}

/** Fails the waiting jobs whose deadline has passed; any number of processes may do so at once. Returns how many. */
export async function failOverdue(
  connection: Redis,
  queueOf: (name: string) => Queue,
  nowMs: number,
): Promise<number> {
  const range = ['-inf', nowMs, 'LIMIT', 0, MOST_AT_ONCE] as const;
  const members = await connection.zrangebyscore(deadlinesKey(connection), ...range);
  let failed = 0;
  for (const member of members) {
    const end = await settle(connection, queueOf, member, nowMs);
    if (end === 'failed') failed += 1;
    if (end === 'running')
      await connection.zadd(deadlinesKey(connection), 'XX', nowMs + LOOK_AGAIN_MS, member);
    else if (end !== 'absent') await connection.zrem(deadlinesKey(connection), member);
  }
  return failed;
}

async function settle(
  connection: Redis,
  queueOf: (name: string) => Queue,
  member: string,
  nowMs: number,
): Promise<'failed' | 'ended' | 'running' | 'absent'> {
  const [name = '', id = ''] = member.split(MEMBER_SEPARATOR);
  const job = await Job.fromId(queueOf(name), id);
  const deadlineAt = JobLimits.safeParse(job?.data).data?.clocks.deadlineAt;
  if (job === undefined || deadlineAt === undefined) {
    const score = Number(await connection.zscore(deadlinesKey(connection), member));
    return nowMs - score > NOT_ADDED_YET_MS ? 'ended' : 'absent';
  }
  const late = new WavepoolError('DEADLINE_EXCEEDED', new Date(deadlineAt).toISOString());
  if (await failWaiting(connection, job, id, late)) return 'failed';
  return (await job.isActive()) ? 'running' : 'ended';
}

/** Neither queues nor jobs have one in their names. */
const MEMBER_SEPARATOR = ':';

function memberOf(queue: string, id: string): string {
  return `${queue}${MEMBER_SEPARATOR}${id}`;
}
