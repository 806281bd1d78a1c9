/** How many jobs of a model are in each state. */
import type { Redis } from 'ioredis';
import type { ModelId } from '../../core/job/job.ts';
import { bullKey, queueNameOf } from '../redis/queue-names.ts';
import { STAGED_SCORES } from '../tenants/fair-share.ts';

export interface JobCounts {
  readonly waiting: number;
  readonly delayed: number;
  readonly running: number;
  readonly completed: number;
  readonly failed: number;
}

/** One moment of a queue. */
export async function readCounts(connection: Redis, model: ModelId): Promise<JobCounts> {
  const key = (type: string) => bullKey(connection, queueNameOf(model), type);
  const replies = await connection
    .multi()
    .llen(key('wait'))
    .zcard(key('prioritized'))
    .zcard(key('delayed'))
    .zcount(key('delayed'), STAGED_SCORES.from, STAGED_SCORES.to)
    .llen(key('active'))
    .zcard(key('completed'))
    .zcard(key('failed'))
    .exec();
  const counts = (replies ?? []).map(([error, count]) => {
    if (error) throw error;
    return Number(count);
  });
  const [wait = 0, prioritized = 0, later = 0, staged = 0, ...rest] = counts;
  const [running = 0, completed = 0, failed = 0] = rest;
  const waiting = wait + prioritized + staged;
  return { waiting, delayed: later - staged, running, completed, failed };
}
