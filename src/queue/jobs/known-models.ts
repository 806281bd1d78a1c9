/** Which models' queues there are, without searching Redis for their keys. */
import type { Redis } from 'ioredis';
import type { ModelId } from '../../core/job/job.ts';
import { toRedisError } from '../redis/connection.ts';
import { modelsKey } from '../redis/queue-names.ts';

/** Idempotent. */
export async function rememberModel(connection: Redis, model: ModelId): Promise<void> {
  await connection.sadd(modelsKey(connection), model);
}

/**
 * Every model that has had a job, in the order of their names.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function readKnownModels(connection: Redis): Promise<ModelId[]> {
  try {
    return (await connection.smembers(modelsKey(connection))).toSorted();
  } catch (error) {
    throw toRedisError(error);
  }
}
