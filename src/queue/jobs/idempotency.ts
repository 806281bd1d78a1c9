/** Remembers which request an idempotency key came with, so that the key cannot stand for two. */
import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import type { JobId } from '../../core/job/job.ts';
import { toRedisError } from '../redis/connection.ts';
import { idempotencyKey } from '../redis/queue-names.ts';

/** Not longer than completed jobs are kept: after that the key is free again. */
const LIFE_SECONDS = 7 * 86_400;

export interface IdempotentRequest {
  /** Whose key it is: two callers may use the same one. */
  readonly caller: string;
  readonly key: string;
  /** Everything that makes the request what it is. */
  readonly content: unknown;
}

/**
 * The id of what the request makes; the same for the same request. It depends on the content, too: when the key is free
 * again and used for something else, that is not taken for the job of old, whose result may still be there.
 * @throws {WavepoolError} IDEMPOTENCY_CONFLICT when the key came with another request, REDIS_UNAVAILABLE
 */
export async function claimIdempotencyKey(
  connection: Redis,
  { caller, key, content }: IdempotentRequest,
): Promise<JobId> {
  const keyHash = sha256(JSON.stringify([caller, key]));
  const id = `idem-${sha256(JSON.stringify([keyHash, content])).slice(0, 40)}`;
  try {
    const place = idempotencyKey(connection, keyHash);
    await connection.set(place, id, 'EX', LIFE_SECONDS, 'NX');
    const holder = await connection.get(place);
    // It may have run out between the two: then nobody else has it.
    if (holder === null || holder === id) return id;
  } catch (error) {
    throw toRedisError(error);
  }
  throw new WavepoolError('IDEMPOTENCY_CONFLICT', key);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
