/**
 * Which workers there are, and what they say of themselves. A worker's word lives for three heartbeats: one that dies, or
 * that Redis cannot hear, is gone soon after. Redis' own clock decides, so that the clocks of the machines do not matter.
 */

import type { Redis } from 'ioredis';
import { parseJson } from '../../core/lenient-parse.ts';
import { parseWorkerPresence, type WorkerPresence } from '../../core/worker/status.ts';
import {
  closeConnection,
  openConnection,
  type RedisAddress,
  toRedisError,
} from '../redis/connection.ts';
import { workerKey, workersKey } from '../redis/queue-names.ts';

export const HEARTBEAT_MS = 2_000;
const LIFE_IN_HEARTBEATS = 3;

/**
 * One heartbeat; also forgets the ids of workers that have been silent for longer than their word lives.
 *
 *   KEYS[1] ids by heartbeat  KEYS[2] the worker's word
 *   ARGV[1] id  ARGV[2] the word  ARGV[3] its life in milliseconds
 */
const BEAT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now - ARGV[3]))
`;

export interface PresencePublisherOptions {
  readonly address: RedisAddress;
  /** Taken anew for each heartbeat; the id stays the same. */
  readonly snapshot: () => WorkerPresence;
  /** @defaultValue `HEARTBEAT_MS` */
  readonly heartbeatMs?: number;
  /** Told once when the world stops hearing; heartbeats go on and are heard again when Redis is back. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Tells the world about one worker until it is closed. */
export class PresencePublisher implements AsyncDisposable {
  readonly #options: PresencePublisherOptions;
  readonly #heartbeatMs: number;
  readonly #connection: Redis;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> | undefined;
  #isStale = false;
  #id: string | undefined;
  #isHeard = true;
  #closed: Promise<void> | undefined;

  constructor(options: PresencePublisherOptions) {
    this.#options = options;
    this.#heartbeatMs = options.heartbeatMs ?? HEARTBEAT_MS;
    this.#connection = openConnection(options.address, { role: 'fail-fast', name: 'presence' });
  }

  /** Resolves after the first heartbeat, heard or not. */
  async start(): Promise<void> {
    // A server that is away is tried again by the connection itself.
    await this.#connection.connect().catch(() => undefined);
    this.#timer = setInterval(() => void this.beat(), this.#heartbeatMs).unref();
    await this.beat();
  }

  /** Publishes now; also happens by itself. Never rejects, and a heartbeat under way is waited for instead. */
  beat(): Promise<void> {
    if (this.#closed !== undefined) return Promise.resolve();
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = undefined;
      if (!this.#isStale) return;
      this.#isStale = false;
      void this.beat();
    });
    return this.#beating;
  }

  /** Something changed: publishes now, and once more when a heartbeat under way may have missed it. */
  announce(): void {
    if (this.#beating !== undefined) this.#isStale = true;
    else void this.beat();
  }

  /** The worker is gone for its readers at once. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#leave();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #beat(): Promise<void> {
    try {
      const presence = this.#options.snapshot();
      this.#id = presence.id;
      const word = JSON.stringify(presence);
      const lifeMs = LIFE_IN_HEARTBEATS * this.#heartbeatMs;
      const keys = [workersKey(this.#connection), workerKey(this.#connection, presence.id)];
      await this.#connection.eval(BEAT, keys.length, ...keys, presence.id, word, lifeMs);
      this.#isHeard = true;
    } catch (error) {
      if (this.#isHeard) this.#options.onError?.(toRedisError(error));
      this.#isHeard = false;
    }
  }

  async #leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#beating;
    if (this.#id !== undefined) {
      const farewell = this.#connection
        .multi()
        .zrem(workersKey(this.#connection), this.#id)
        .del(workerKey(this.#connection, this.#id));
      // Without Redis the word runs out by itself.
      await farewell.exec().catch(() => undefined);
    }
    closeConnection(this.#connection);
  }
}

/**
 * The workers that are alive, in the order in which they started; those that only another version can read are left out.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function readPresence(connection: Redis): Promise<WorkerPresence[]> {
  try {
    const ids = await connection.zrange(workersKey(connection), '0', '-1');
    if (ids.length === 0) return [];
    const words = await connection.mget(...ids.map((id) => workerKey(connection, id)));
    return words
      .flatMap((word) => parseWorkerPresence(parseJson(word)) ?? [])
      .toSorted((a, b) => a.startedAt - b.startedAt || a.id.localeCompare(b.id));
  } catch (error) {
    throw toRedisError(error);
  }
}
