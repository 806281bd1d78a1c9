/** How many live streams a caller has at once, over all servers. Redis' own clock decides which of them are gone. */
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { toRedisError } from '../redis/connection.ts';
import { liveStreamsKey } from '../redis/queue-names.ts';

/** A server that is killed gives its streams' places back after this. */
const LIFE_MS = 30_000;
const RENEW_MS = LIFE_MS / 3;

/**
 * Takes a place, or keeps it; 1 when the stream has one.
 *
 *   KEYS[1] streams by the time of their end  ARGV[1] stream  ARGV[2] most streams  ARGV[3] life in milliseconds
 */
const TAKE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`;

/** A caller's place for one stream. */
export interface LivePlace {
  /** Never rejects: a place that cannot be given back runs out. */
  release(): Promise<void>;
}

export class LiveLimit {
  readonly #connection: Redis;
  readonly #most: number;

  /** @param most of one caller; 0 = no limit */
  constructor(connection: Redis, most: number) {
    this.#connection = connection;
    this.#most = most;
  }

  /** @throws {WavepoolError} STREAM_LIMIT, REDIS_UNAVAILABLE */
  async take(caller: string, stream: string): Promise<LivePlace> {
    if (this.#most === 0) return { release: () => Promise.resolve() };
    const key = liveStreamsKey(this.#connection, caller);
    if (!(await this.#keep(key, stream))) {
      throw new WavepoolError('STREAM_LIMIT', `${this.#most} are allowed`);
    }
    // What Redis does not hear now, it hears the next time.
    const renewal = setInterval(
      () => void this.#keep(key, stream).catch(() => undefined),
      RENEW_MS,
    ).unref();
    return {
      release: async () => {
        clearInterval(renewal);
        await this.#connection.zrem(key, stream).catch(() => undefined);
      },
    };
  }

  async #keep(key: string, stream: string): Promise<boolean> {
    try {
      return (await this.#connection.eval(TAKE, 1, key, stream, this.#most, LIFE_MS)) === 1;
    } catch (error) {
      throw toRedisError(error);
    }
  }
}
