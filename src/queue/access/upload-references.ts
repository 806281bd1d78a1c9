/** Which jobs refer to an upload: it must stay while one of them has not ended. */
import type { Redis } from 'ioredis';
import type { JobId, UploadId } from '../../core/job/job.ts';
import type { QueueRegistry } from '../queue-registry.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
  toRedisError,
} from '../redis/connection.ts';
import { uploadJobsKey, uploadOwnersKey } from '../redis/queue-names.ts';
import { addUploadOwner, NO_TENANT } from './upload-owners.ts';

const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled']);

/** `addUploadReferences` for programs that have no connection of their own. */
export class UploadReferences implements AsyncDisposable {
  readonly #connection: Redis;

  private constructor(connection: Redis) {
    this.#connection = connection;
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(address: RedisAddress): Promise<UploadReferences> {
    const connection = openConnection(address, { role: 'fail-fast', name: 'uploads' });
    await connect(connection, address);
    return new UploadReferences(connection);
  }

  /** It was sent for no tenant in particular. */
  async add(uploadId: UploadId, jobId: JobId): Promise<void> {
    await addUploadOwner(this.#connection, uploadId, NO_TENANT);
    await addUploadReferences(this.#connection, [{ uploadId, jobId }]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    closeConnection(this.#connection);
    return Promise.resolve();
  }
}

/** Call before the jobs are added. */
export async function addUploadReferences(
  connection: Redis,
  references: readonly { readonly uploadId: UploadId; readonly jobId: JobId }[],
): Promise<void> {
  if (references.length === 0) return;
  const pipeline = connection.pipeline();
  for (const { uploadId, jobId } of references)
    pipeline.sadd(uploadJobsKey(connection, uploadId), jobId);
  await guarded(async () => {
    for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
  });
}

/** Whether a job other than `except` needs the upload */
export async function isUploadNeeded(
  queues: QueueRegistry,
  uploadId: UploadId,
  except?: JobId,
): Promise<boolean> {
  const { connection } = queues;
  const key = uploadJobsKey(connection, uploadId);
  for (const jobId of await guarded(() => connection.smembers(key))) {
    if (jobId === except) continue;
    const found = await queues.find(jobId);
    if (found !== undefined && !ENDED.has(found.view.state)) return true;
  }
  return false;
}

/** For an upload that is gone: who has sent it is forgotten, too. */
export async function forgetUploadReferences(connection: Redis, uploadId: UploadId): Promise<void> {
  await guarded(() =>
    connection.del(uploadJobsKey(connection, uploadId), uploadOwnersKey(connection, uploadId)),
  );
}

async function guarded<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw toRedisError(error);
  }
}
