/** Which models' queues there are, without searching Redis for their keys. */
import type { Redis } from 'ioredis';
import type { ModelId } from '../core/job.ts';
import { toRedisError } from './connection.ts';
import { MODELS_KEY } from './queue-names.ts';

/** Idempotent. */
export async function rememberModel(connection: Redis, model: ModelId): Promise<void> {
  await connection.sadd(MODELS_KEY, model);
}

/**
 * Every model that has had a job, in the order of their names.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function readKnownModels(connection: Redis): Promise<ModelId[]> {
  try {
    return (await connection.smembers(MODELS_KEY)).toSorted();
  } catch (error) {
    throw toRedisError(error);
  }
}
