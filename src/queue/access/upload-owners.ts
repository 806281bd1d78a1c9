/**
 * Who has sent an upload. Equal bytes are stored once, whoever sends them; so a tenant may use only what it has sent itself,
 * and gives up its own part of it.
 */
import type { Redis } from 'ioredis';
import type { UploadId } from '../../core/job/job.ts';
import { toRedisError } from '../redis/connection.ts';
import { uploadOwnersKey } from '../redis/queue-names.ts';

/** Sent for no tenant in particular; no tenant has this name. */
export const NO_TENANT = '';

/** @throws {WavepoolError} REDIS_UNAVAILABLE */
export async function addUploadOwner(
  connection: Redis,
  uploadId: UploadId,
  owner: string,
): Promise<void> {
  await guarded(() => connection.sadd(uploadOwnersKey(connection, uploadId), owner));
}

/** @throws {WavepoolError} REDIS_UNAVAILABLE */
export async function isUploadOwner(
  connection: Redis,
  uploadId: UploadId,
  owner: string,
): Promise<boolean> {
  const key = uploadOwnersKey(connection, uploadId);
  return (await guarded(() => connection.sismember(key, owner))) === 1;
}

/** Whether nobody else has sent it. @throws {WavepoolError} REDIS_UNAVAILABLE */
export async function removeUploadOwner(
  connection: Redis,
  uploadId: UploadId,
  owner: string,
): Promise<boolean> {
  const key = uploadOwnersKey(connection, uploadId);
  return guarded(async () => {
    await connection.srem(key, owner);
    return (await connection.exists(key)) === 0;
  });
}

async function guarded<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw toRedisError(error);
  }
}
