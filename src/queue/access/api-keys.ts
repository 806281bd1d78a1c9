/** API keys: random, shown once, and known here only by their hash. */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { ApiKeyRecord, type ApiKeyScope } from '../../core/http/api-key.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { toRedisError } from '../redis/connection.ts';
import { apiKeysKey } from '../redis/queue-names.ts';

export interface CreatedApiKey {
  readonly record: ApiKeyRecord;
  /** The only time that the key itself is seen. */
  readonly key: string;
}

interface ApiKeyGrant {
  readonly name: string;
  readonly scopes: readonly ApiKeyScope[];
  readonly tenant: string | undefined;
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

  /**
   * @param tenant whose work the key is for; everybody's when left out
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  async create(
    name: string,
    scopes: readonly ApiKeyScope[],
    tenant?: string,
  ): Promise<CreatedApiKey> {
    const id = randomBytes(8).toString('hex');
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const record = await this.#keep(id, secret, { name, scopes, tenant });
    return { record, key: `wp_${id}_${secret}` };
  }

  /**
   * Makes a key valid that was made elsewhere, such as a secret of the deployment. The same key again changes nothing but
   * its name, scopes and tenant.
   * @param key `wp_`, 16 hexadecimal digits, `_`, 43 characters of base64url
   * @throws {WavepoolError} INVALID_REQUEST, REDIS_UNAVAILABLE
   */
  async adopt(
    key: string,
    name: string,
    scopes: readonly ApiKeyScope[],
    tenant?: string,
  ): Promise<ApiKeyRecord> {
    const [, id, secret] = KEY.exec(key) ?? [];
    if (id === undefined || secret === undefined) {
      throw new WavepoolError('INVALID_REQUEST', 'this is no API key: see docs/operations.md');
    }
    return this.#keep(id, secret, { name, scopes, tenant });
  }

  /** Oldest first. */
  async list(): Promise<ApiKeyRecord[]> {
    const stored = await this.#guard(() => this.#connection.hvals(apiKeysKey(this.#connection)));
    return stored
      .flatMap((text) => ApiKeyRecord.safeParse(parseJson(text)).data ?? [])
      .toSorted((a, b) => a.createdAt - b.createdAt || a.id.localeCompare(b.id));
  }

  /** Whether there was one. It and its sessions are worth nothing from now on. */
  async revoke(id: string): Promise<boolean> {
    return (await this.#guard(() => this.#connection.hdel(apiKeysKey(this.#connection), id))) === 1;
  }

  /** Whether there is any key: without one, nobody is asked for it. */
  async exist(): Promise<boolean> {
    return (await this.#guard(() => this.#connection.hlen(apiKeysKey(this.#connection)))) > 0;
  }

  async find(id: string): Promise<ApiKeyRecord | undefined> {
    const stored = await this.#guard(() => this.#connection.hget(apiKeysKey(this.#connection), id));
    return ApiKeyRecord.safeParse(parseJson(stored)).data;
  }

  /** The record of a key that somebody presents. Takes no less time for a nearly right one. */
  async verify(presented: string): Promise<ApiKeyRecord | undefined> {
    const [, id = '', secret = ''] = KEY.exec(presented) ?? [];
    const record = id === '' ? undefined : await this.find(id);
    const expected = Buffer.from(record?.sha256 ?? '0'.repeat(64), 'hex');
    return timingSafeEqual(hashOf(secret), expected) ? record : undefined;
  }

  async #keep(
    id: string,
    secret: string,
    { name, scopes, tenant }: ApiKeyGrant,
  ): Promise<ApiKeyRecord> {
    const record = ApiKeyRecord.parse({
      id,
      name,
      scopes: [...new Set(scopes)],
      ...(tenant === undefined ? {} : { tenant }),
      sha256: hashOf(secret).toString('hex'),
      createdAt: this.#now(),
    });
    await this.#guard(() =>
      this.#connection.hset(apiKeysKey(this.#connection), id, JSON.stringify(record)),
    );
    return record;
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}
