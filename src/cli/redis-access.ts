/** Redis for commands that start no workers: the one of `--redis`, or the data directory's own. */
import type { Config } from '../core/config.ts';
import type { Logger } from '../core/logger.ts';
import type { RedisAddress } from '../queue/redis/connection.ts';
import { EmbeddedRedis } from '../queue/redis/embedded-redis.ts';

export class RedisAccess implements AsyncDisposable {
  readonly address: RedisAddress;
  readonly #embedded: EmbeddedRedis | undefined;

  private constructor(address: RedisAddress, embedded: EmbeddedRedis | undefined) {
    this.address = address;
    this.#embedded = embedded;
  }

  /**
   * @param logger is told when a private server that died cannot be started again
   * @throws {WavepoolError} REDIS_MISSING, REDIS_UNAVAILABLE, REDIS_UNSUITABLE, REDIS_FULL
   */
  static async open(config: Config, signal?: AbortSignal, logger?: Logger): Promise<RedisAccess> {
    const { redisUrl } = config;
    if (redisUrl !== undefined) return new RedisAccess({ kind: 'url', url: redisUrl }, undefined);
    const embedded = await EmbeddedRedis.acquire({
      ...config,
      signal,
      onError: (err) => logger?.error({ err }, 'the private Redis is gone and cannot be started'),
    });
    return new RedisAccess(embedded.address, embedded);
  }

  /** Close everything that is connected before. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#embedded?.release();
  }
}
