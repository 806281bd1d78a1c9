/** Secrets with which deliveries are signed: of a tenant, else of the server. Two of them are live while one is replaced. */

import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import type { SecretResource } from '../../core/http/webhook-message.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import type { WebhookSecret } from '../../core/webhook.ts';
import { toRedisError } from '../redis/connection.ts';
import { webhookSecretsKey } from '../redis/queue-names.ts';

const SECRET_BYTES = 32;
const LIVE_AT_ONCE = 2;
/** No tenant has this name. */
const SERVER = '';

interface StoredSecret {
  readonly secret: WebhookSecret;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
}

export interface WebhookSecretsOptions {
  readonly connection: Redis;
  /** The server's, newest first, in place of one that is made and kept in Redis. */
  readonly configured: readonly WebhookSecret[];
  /** Milliseconds since 1970. @defaultValue Date.now */
  readonly now?: (() => number) | undefined;
}

export class WebhookSecrets {
  readonly #connection: Redis;
  readonly #configured: readonly WebhookSecret[];
  readonly #now: () => number;

  constructor({ connection, configured, now = Date.now }: WebhookSecretsOptions) {
    this.#connection = connection;
    this.#configured = configured;
    this.#now = now;
  }

  /** What signs the deliveries of a tenant, or of those who have none of their own; made when it is first asked for. */
  async show(tenant?: string): Promise<SecretResource> {
    return this.#guard(async () => {
      const own = tenant === undefined ? [] : await this.#live(tenant);
      if (own.length > 0) return resource(tenant, 'tenant', own);
      if (this.#configured.length > 0) {
        const secrets = this.#configured.map((secret) => ({
          secret,
          createdAt: null,
          expiresAt: null,
        }));
        return { tenant: tenant ?? null, source: 'configuration', secrets };
      }
      const made = JSON.stringify([this.#make()]);
      await this.#connection.hsetnx(webhookSecretsKey(this.#connection), SERVER, made);
      return resource(tenant, 'server', await this.#live(SERVER));
    });
  }

  /** Newest first. */
  async of(tenant: string): Promise<WebhookSecret[]> {
    return (await this.show(tenant)).secrets.map(({ secret }) => secret);
  }

  /**
   * Makes a new secret; the one before stays valid for a while.
   * @throws {WavepoolError} INVALID_REQUEST when the server's secret is that of its configuration, REDIS_UNAVAILABLE
   */
  async rotate(tenant: string | undefined, keepOldMs: number): Promise<SecretResource> {
    if (tenant === undefined && this.#configured.length > 0) {
      throw new WavepoolError(
        'INVALID_REQUEST',
        "the server's secret is in its configuration: change WAVEPOOL_WEBHOOK_SECRET there",
      );
    }
    return this.#guard(async () => {
      const now = this.#now();
      const made = this.#make();
      const [previous] = await this.#live(tenant ?? SERVER);
      const kept = previous === undefined || keepOldMs === 0 ? [] : [previous];
      const old = kept.map((secret) => ({ ...secret, expiresAt: now + keepOldMs }));
      const stored = JSON.stringify([made, ...old].slice(0, LIVE_AT_ONCE));
      await this.#connection.hset(webhookSecretsKey(this.#connection), tenant ?? SERVER, stored);
      return this.show(tenant);
    });
  }

  /** A tenant has the server's secret from now on. Whether it had one of its own. */
  async remove(tenant: string): Promise<boolean> {
    return this.#guard(
      async () => (await this.#connection.hdel(webhookSecretsKey(this.#connection), tenant)) === 1,
    );
  }

  #make(): StoredSecret {
    const secret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
    return { secret, createdAt: this.#now(), expiresAt: null };
  }

  async #live(field: string): Promise<StoredSecret[]> {
    const stored = parseJson(
      await this.#connection.hget(webhookSecretsKey(this.#connection), field),
    );
    // Written by `rotate` and `show` alone.
    const secrets = Array.isArray(stored) ? (stored as StoredSecret[]) : [];
    return secrets.filter(({ expiresAt }) => expiresAt === null || expiresAt > this.#now());
  }

  async #guard<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      throw toRedisError(error);
    }
  }
}

function resource(
  tenant: string | undefined,
  source: SecretResource['source'],
  secrets: readonly StoredSecret[],
): SecretResource {
  return {
    tenant: tenant ?? null,
    source,
    secrets: secrets.map(({ secret, createdAt, expiresAt }) => ({
      secret,
      createdAt: new Date(createdAt).toISOString(),
      expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    })),
  };
}
