/** API keys: random, shown once, and known here only by their hash. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Redis } from 'ioredis';
import { ApiKeyRecord, type ApiKeyScope } from '../core/api-key.ts';
import { toRedisError } from './connection.ts';
import { parseJson } from './job-ends.ts';
import { API_KEYS_KEY } from './queue-names.ts';

export interface CreatedApiKey {
  readonly record: ApiKeyRecord;
  /** The only time that the key itself is seen. */
  readonly key: string;
}

const SECRET_BYTES = 32;
/** `wp_ID_SECRET`: the id finds the record, the secret is compared. */
const KEY = /^wp_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/;

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

export class ApiKeys {
  readonly #connection: Redis;
  readonly #now: () => number;

  constructor(connection: Redis, now: () => number = Date.now) {
    this.#connection = connection;
    this.#now = now;
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  async create(name: string, scopes: readonly ApiKeyScope[]): Promise<CreatedApiKey> {
    const id = randomBytes(8).toString('hex');
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const record = ApiKeyRecord.parse({
      id,
      name,
      scopes: [...new Set(scopes)],
      sha256: hashOf(secret).toString('hex'),
      createdAt: this.#now(),
    });
    await this.#guard(() => this.#connection.hset(API_KEYS_KEY, id, JSON.stringify(record)));
    return { record, key: `wp_${id}_${secret}` };
  }

  /** Oldest first. */
  async list(): Promise<ApiKeyRecord[]> {
    const stored = await this.#guard(() => this.#connection.hvals(API_KEYS_KEY));
    return stored
      .flatMap((text) => ApiKeyRecord.safeParse(parseJson(text)).data ?? [])
      .toSorted((a, b) => a.createdAt - b.createdAt || a.id.localeCompare(b.id));
  }

  /** Whether there was one. It and its sessions are worth nothing from now on. */
  async revoke(id: string): Promise<boolean> {
    return (await this.#guard(() => this.#connection.hdel(API_KEYS_KEY, id))) === 1;
  }

  /** Whether there is any key: without one, nobody is asked for it. */
  async exist(): Promise<boolean> {
    return (await this.#guard(() => this.#connection.hlen(API_KEYS_KEY))) > 0;
  }

  async find(id: string): Promise<ApiKeyRecord | undefined> {
    const stored = await this.#guard(() => this.#connection.hget(API_KEYS_KEY, id));
    return ApiKeyRecord.safeParse(parseJson(stored)).data;
  }

  /** The record of a key that somebody presents. Takes no less time for a nearly right one. */
  async verify(presented: string): Promise<ApiKeyRecord | undefined> {
    const [, id = '', secret = ''] = KEY.exec(presented) ?? [];
    const record = id === '' ? undefined : await this.find(id);
    const expected = Buffer.from(record?.sha256 ?? '0'.repeat(64), 'hex');
    return timingSafeEqual(hashOf(secret), expected) ? record : undefined;
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}
