/** What operators say of tenants, in Redis, where the scripts of the fair share read it. */

import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { EVERY_OTHER_TENANT, TenantName, TenantRules } from '../../core/job/tenant.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { toRedisError } from '../redis/connection.ts';
import { tenantRulesKey } from '../redis/queue-names.ts';

/** So long a process goes by what it read last. */
const FRESH_MS = 2_000;

export class TenantRuleStore {
  readonly #connection: Redis;

  /** The connection stays the caller's. */
  constructor(connection: Redis) {
    this.#connection = connection;
  }

  /** By tenant, in the order of their names. */
  async list(): Promise<Map<TenantName, TenantRules>> {
    const stored = await this.#guard(() =>
      this.#connection.hgetall(tenantRulesKey(this.#connection)),
    );
    return new Map(
      Object.entries(stored)
        .toSorted(([a], [b]) => a.localeCompare(b))
        .flatMap(([tenant, text]) => {
          const rules = TenantRules.safeParse(parseJson(text)).data;
          return rules === undefined ? [] : [[tenant, rules] as const];
        }),
    );
  }

  /**
   * Counts for what starts from now on.
   * @param tenant `*` is every tenant without rules of its own
   * @throws {WavepoolError} INVALID_REQUEST, REDIS_UNAVAILABLE
   */
  async set(tenant: TenantName, rules: Partial<TenantRules>): Promise<TenantRules> {
    const name = TenantName.safeParse(tenant);
    const parsed = TenantRules.safeParse(rules);
    if (!name.success || !parsed.success) {
      const why = name.error?.message ?? parsed.error?.message ?? '';
      throw new WavepoolError('INVALID_REQUEST', `tenant ${tenant}: ${why}`);
    }
    const text = JSON.stringify(parsed.data);
    await this.#guard(() => this.#connection.hset(tenantRulesKey(this.#connection), tenant, text));
    return parsed.data;
  }

  /** Whether there were any. */
  async remove(tenant: TenantName): Promise<boolean> {
    return (
      (await this.#guard(() => this.#connection.hdel(tenantRulesKey(this.#connection), tenant))) ===
      1
    );
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}

/** The same as a process remembers them, for questions that come with every job. */
export class KnownLimits {
  readonly #store: TenantRuleStore;
  readonly #now: () => number;
  #reading: Promise<Map<TenantName, TenantRules>> | undefined;
  #readAt = Number.NEGATIVE_INFINITY;

  /** @param now milliseconds */
  constructor(connection: Redis, now = () => performance.now()) {
    this.#store = new TenantRuleStore(connection);
    this.#now = now;
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  async isLimited(tenant: TenantName): Promise<boolean> {
    const rules = await this.#read();
    const own = rules.get(tenant) ?? rules.get(EVERY_OTHER_TENANT);
    return own?.concurrency !== undefined;
  }

  #read(): Promise<Map<TenantName, TenantRules>> {
    const now = this.#now();
    if (this.#reading === undefined || now - this.#readAt >= FRESH_MS) {
      this.#readAt = now;
      const reading = this.#store.list();
      this.#reading = reading;
      reading.catch(() => {
        if (this.#reading === reading) this.#reading = undefined;
      });
    }
    return this.#reading;
  }
}
