/** A Lua script that is sent once and then named by its hash. */
import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';

export class RedisScript {
  readonly #lua: string;
  readonly #sha: string;

  constructor(lua: string) {
    this.#lua = lua;
    this.#sha = createHash('sha1').update(lua).digest('hex');
  }

  async run(
    connection: Redis,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    try {
      return await connection.evalsha(this.#sha, keys.length, ...keys, ...args);
    } catch (error) {
      // The server was started, or its scripts were flushed, since.
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return connection.eval(this.#lua, keys.length, ...keys, ...args);
    }
  }
}
