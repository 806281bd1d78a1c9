/** Logins of pages: a random token in a cookie, the rest here, found by the token's hash. */

import { createHash, randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { SessionRecord } from '../../core/http/api-key.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { toRedisError } from '../redis/connection.ts';
import { sessionKey } from '../redis/queue-names.ts';

export interface OpenedSession {
  /** For the cookie. */
  readonly token: string;
  readonly record: SessionRecord;
}

export class Sessions {
  readonly #connection: Redis;
  readonly #lifeMs: number;

  /** @param lifeMs without a request, after which the login is forgotten */
  constructor(connection: Redis, lifeMs: number) {
    this.#connection = connection;
    this.#lifeMs = lifeMs;
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  async open(keyId: string): Promise<OpenedSession> {
    const token = randomBytes(32).toString('base64url');
    const record: SessionRecord = { keyId, csrfToken: randomBytes(32).toString('base64url') };
    await this.#guard(() =>
      this.#connection.set(this.#keyOf(token), JSON.stringify(record), 'PX', this.#lifeMs),
    );
    return { token, record };
  }

  /** The session of a token; being asked for, it lives on. */
  async find(token: string): Promise<SessionRecord | undefined> {
    const stored = await this.#guard(async () => {
      const key = this.#keyOf(token);
      const replies = await this.#connection.multi().get(key).pexpire(key, this.#lifeMs).exec();
      return replies?.[0]?.[1];
    });
    return SessionRecord.safeParse(parseJson(stored)).data;
  }

  async close(token: string): Promise<void> {
    await this.#guard(() => this.#connection.del(this.#keyOf(token)));
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }

  #keyOf(token: string): string {
    const tokenHash = createHash('sha256').update(token).digest('hex');
    return sessionKey(this.#connection, tokenHash);
  }
}
