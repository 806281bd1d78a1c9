/** Redis for commands: the one of `--redis`, or the data directory's own. */
import type { Config } from '../../core/config.ts';
import type { Logger } from '../../core/logger.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../../queue/redis/connection.ts';
import { EmbeddedRedis } from '../../queue/redis/embedded-redis.ts';
import { type PlaceOptions, placesOf } from '../options/options.ts';
import type { CliContext } from '../terminal/context.ts';

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

type Connection = ReturnType<typeof openConnection>;

/**
 * One connection, for a command that reads or writes a few keys.
 * @throws {WavepoolError} as `RedisAccess.open`
 */
export async function withConnection<Result>(
  options: PlaceOptions,
  context: CliContext,
  use: (connection: Connection, address: RedisAddress) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  await using redis = await RedisAccess.open(placesOf(context.config, options), signal);
  const { address } = redis;
  return await withConnectionTo(address, (connection) => use(connection, address));
}

/** As `withConnection`, to a server that is known to run. */
export async function withConnectionTo<Result>(
  address: RedisAddress,
  use: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  const connection = openConnection(address, { role: 'fail-fast', name: 'command' });
  await connect(connection, address);
  try {
    return await use(connection);
  } finally {
    closeConnection(connection);
  }
}
