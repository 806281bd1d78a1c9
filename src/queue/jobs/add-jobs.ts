/** Adds many jobs at once, whatever happens on the way. */
import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { bullKey } from '../redis/queue-names.ts';
import type { PreparedJob } from './prepared-job.ts';

const ADD_ATTEMPTS = 5;

/** BullMQ adds a bulk as a pipeline: after an error some jobs may be there and others not. */
export async function addChunk(
  queue: Queue,
  connection: Redis,
  chunk: readonly PreparedJob[],
): Promise<void> {
  let missing = chunk;
  for (let attempt = 1; missing.length > 0; attempt++) {
    try {
      await queue.addBulk([...missing]);
      return;
    } catch (error) {
      if (attempt === ADD_ATTEMPTS) throw error;
      missing = await missingOf(queue, connection, missing);
    }
  }
}

async function missingOf(
  { name }: Queue,
  connection: Redis,
  chunk: readonly PreparedJob[],
): Promise<PreparedJob[]> {
  const present = await Promise.all(
    chunk.map(({ opts }) => connection.exists(bullKey(connection, name, opts.jobId))),
  );
  return chunk.filter((_, index) => present[index] === 0);
}
