/** The Redis of a command: the one of `--redis`, or the private one of the data directory. */
import type { Config } from '../core/config.ts';
import type { RedisAddress } from '../queue/connection.ts';
import { EmbeddedRedis } from '../queue/embedded-redis.ts';

export interface RedisAccess extends AsyncDisposable {
  readonly address: RedisAddress;
  /** Close the queues before. The private server ends when nobody else uses it; what is in it is kept. Idempotent. */
  release(): Promise<void>;
}

/**
 * @param signal ends the wait for a private server that does not come up
 * @throws {WavepoolError} REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_UNSUITABLE
 */
export async function openRedis(config: Config, signal?: AbortSignal): Promise<RedisAccess> {
  const { redisUrl } = config;
  if (redisUrl !== undefined) {
    const release = () => Promise.resolve();
    return { address: { kind: 'url', url: redisUrl }, release, [Symbol.asyncDispose]: release };
  }
  const embedded = await EmbeddedRedis.acquire({ ...config, signal });
  const release = async (): Promise<void> => {
    await embedded.release();
  };
  return { address: embedded.address, release, [Symbol.asyncDispose]: release };
}
