/** Ends a job that no worker holds: a cancelled one, or one whose deadline has passed. */
import { randomUUID } from 'node:crypto';
import type { Job } from 'bullmq';
import type { Redis } from 'ioredis';
import type { WavepoolError } from '../../core/errors.ts';
import { bullKey } from '../redis/queue-names.ts';
import { toQueueError } from './failures.ts';

/**
 * Takes one particular job, as a worker takes the next one. BullMQ offers no call for it, and its `remove` would also
 * remove a job that finished a moment ago. From here BullMQ's own code ends the job; should this process die in between,
 * the lock runs out and the stall check puts the job back, as one that has been taken before.
 *
 *   KEYS[1] wait  KEYS[2] paused  KEYS[3] prioritized  KEYS[4] delayed  KEYS[5] active  KEYS[6] the job's lock
 *   KEYS[7] the job
 *   ARGV[1] job id  ARGV[2] lock token  ARGV[3] lock time in milliseconds
 *   returns 1 when the job was taken, 0 when it waits nowhere
 */
const TAKE_WAITING_JOB = `
local found = redis.call('LREM', KEYS[1], 0, ARGV[1]) + redis.call('LREM', KEYS[2], 0, ARGV[1])
  + redis.call('ZREM', KEYS[3], ARGV[1]) + redis.call('ZREM', KEYS[4], ARGV[1])
if found == 0 then return 0 end
redis.call('LPUSH', KEYS[5], ARGV[1])
redis.call('SET', KEYS[6], ARGV[2], 'PX', ARGV[3])
redis.call('HINCRBY', KEYS[7], 'ats', 1)
return 1
`;

const LOCK_MS = 30_000;

/** Whether the job was waiting and has failed now; a job that runs or has finished is left alone. */
export async function failWaiting(
  connection: Redis,
  job: Job,
  id: string,
  error: WavepoolError,
): Promise<boolean> {
  const token = randomUUID();
  const keys = ['wait', 'paused', 'prioritized', 'delayed', 'active', `${id}:lock`, id].map(
    (type) => bullKey(connection, job.queueName, type),
  );
  const taken = await connection.eval(TAKE_WAITING_JOB, keys.length, ...keys, id, token, LOCK_MS);
  if (taken !== 1) return false;
  await job.moveToFailed(toQueueError(error), token);
  return true;
}
