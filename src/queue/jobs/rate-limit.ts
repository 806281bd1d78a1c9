/** How many jobs of one queue may start in a time. BullMQ counts them over all workers. */
import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { RateLimit } from '../../core/job/tenant.ts';
import { bullKey } from '../redis/queue-names.ts';

export async function readRateLimit(
  connection: Redis,
  queue: string,
): Promise<RateLimit | undefined> {
  const [max, duration] = await connection.hmget(
    bullKey(connection, queue, 'meta'),
    'max',
    'duration',
  );
  if (max == null || duration == null) return undefined;
  return { jobs: Number(max), durationMs: Number(duration) };
}

/** @throws {WavepoolError} INVALID_REQUEST */
export async function writeRateLimit(queue: Queue, limit: RateLimit | undefined): Promise<void> {
  if (limit === undefined) {
    await queue.removeGlobalRateLimit();
    // What was counted so far would still be waited for.
    await queue.removeRateLimitKey();
    return;
  }
  const parsed = RateLimit.safeParse(limit);
  if (!parsed.success) {
    throw new WavepoolError('INVALID_REQUEST', `rate limit: ${parsed.error.message}`);
  }
  await queue.setGlobalRateLimit(parsed.data.jobs, parsed.data.durationMs);
}
