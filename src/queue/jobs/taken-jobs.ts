/** Jobs that BullMQ workers hold in Redis, told by the locks: these begin with the id of the worker that took the job. */
import type { Redis } from 'ioredis';
import type { HeldJob } from '../../core/worker/ipc.ts';
import { bullKey } from '../redis/queue-names.ts';

/** What these workers hold of a queue, whether they know it or not; first the job that was taken last. */
export async function jobsTakenBy(
  connection: Redis,
  queue: string,
  workerIds: readonly string[],
): Promise<HeldJob[]> {
  if (workerIds.length === 0) return [];
  const ids = await connection.lrange(bullKey(connection, queue, 'active'), '0', '-1');
  if (ids.length === 0) return [];
  const locks = await connection.mget(ids.map((id) => bullKey(connection, queue, `${id}:lock`)));
  return ids.flatMap((jobId, index) => {
    const token = locks[index];
    const isTheirs = workerIds.some((id) => token?.startsWith(`${id}:`));
    return isTheirs && typeof token === 'string' ? [{ jobId, token }] : [];
  });
}
