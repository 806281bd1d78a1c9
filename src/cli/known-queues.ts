/** The queues that a command which was given no model looks through. */
import type { Config } from '../core/config.ts';
import { AudioQueue } from '../queue/audio-queue.ts';
import { readKnownModels } from '../queue/jobs/known-models.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../queue/redis/connection.ts';
import { RedisAccess } from './redis-access.ts';

export interface Queues extends AsyncDisposable {
  readonly all: readonly AudioQueue[];
}

/**
 * @param model the only one; without it every model that has had a job
 * @throws {WavepoolError} INVALID_REQUEST, REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_UNSUITABLE
 */
export async function openQueues(config: Config, model: string | undefined): Promise<Queues> {
  const redis = await RedisAccess.open(config);
  const all: AudioQueue[] = [];
  const close = async (): Promise<void> => {
    for (const queue of all) await queue.close();
    await redis[Symbol.asyncDispose]();
  };
  try {
    const { address } = redis;
    const models = model === undefined ? await knownModels(address) : [model];
    for (const each of models) all.push(await AudioQueue.open({ address, model: each }));
    return { all, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function knownModels(address: RedisAddress): Promise<string[]> {
  const connection = openConnection(address, { role: 'fail-fast', name: 'models' });
  await connect(connection, address);
  try {
    return await readKnownModels(connection);
  } finally {
    closeConnection(connection);
  }
}
