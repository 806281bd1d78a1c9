/**
 * Shares a queue among tenants. BullMQ takes the job with the lowest priority number first; here that number is a tag of
 * virtual time (start-time fair queueing). Each tenant has a clock. A job gets its tenant's clock as its tag, but never less
 * than the tag of what is served next, and the clock moves on by one step over the tenant's weight. So tenants that wait take
 * turns, however many jobs each has, and who has been away is neither owed nor charged for it.
 *
 * A job is added *unplaced*: behind all that have a tag. The next settling gives it one. Only a window of each tenant's jobs
 * is tagged, in the order of the priorities that their producer gave them; the rest is *staged*. A tenant's concurrency
 * limit is nothing but a small window, in which jobs stay until they have ended.
 *
 * A staged job is an ordinary delayed job whose time is in the far future, so it has everything that jobs have: it is
 * durable, a child of its batch, seen, cancelled and overdue like any other. What the scripts remember besides is only an
 * index of it: jobs that no index knows are found by their tag or their time, whatever crashed in between.
 */
import type { Job } from 'bullmq';
import type { Redis } from 'ioredis';
import { MAX_DELAY_MS } from '../../core/job/job.ts';
import { bullKey, fairShareKeys } from '../redis/queue-names.ts';
import { RedisScript } from '../redis/redis-script.ts';
import { ENTER, SETTLE, WAITING } from './fair-share-script.ts';

/** BullMQ's highest priority number: after everything that has a place. */
export const UNPLACED = 2_097_151;

/** The time until which a staged job is delayed; in 2039, where BullMQ's own scores end. */
export const STAGED_AT = 2_190_000_000_000;

/** Jobs of one tenant that have a place. As many are put in order when a more urgent one comes. */
export const WINDOW = 1_000;
const MOST_IN_ONE_STEP = 500;

const SCRIPTS = {
  settle: new RedisScript(SETTLE),
  enter: new RedisScript(ENTER),
  waiting: new RedisScript(WAITING),
};

/** Whether a delayed job waits for nothing but its turn. */
export function isStaged({ delay }: Pick<Job, 'delay'>): boolean {
  return delay > MAX_DELAY_MS;
}

/** The scores of staged jobs in BullMQ's `delayed`. */
export const STAGED_SCORES = { from: STAGED_AT * 4_096, to: '+inf' } as const;

export interface TakenJob {
  readonly id: string;
  readonly tenant: string;
  readonly priority: number;
  readonly interactive: boolean;
}

export interface FairShareOptions {
  /** Of each tenant. @defaultValue 1 000 */
  readonly window?: number | undefined;
}

export class FairShare {
  readonly #connection: Redis;
  readonly #queue: string;
  readonly #window: number;

  /** The connection stays the caller's. */
  constructor(connection: Redis, queue: string, { window = WINDOW }: FairShareOptions = {}) {
    this.#connection = connection;
    this.#queue = queue;
    this.#window = window;
  }

  /** Gives places to all jobs that have none, and fills the windows of these tenants. May be repeated by anybody. */
  async settle(tenants: Iterable<string> | 'all'): Promise<void> {
    const filled = tenants === 'all' ? ['*'] : [...tenants];
    while ((await this.#run(SCRIPTS.settle, [MOST_IN_ONE_STEP, ...filled])) === 1);
  }

  /**
   * Whether a job that a worker has taken may run: not when its tenant's limit is reached. Jobs with a place always may; this
   * is for those that were taken without one.
   */
  async enter({ id, tenant, priority, interactive }: TakenJob): Promise<boolean> {
    return (await this.#run(SCRIPTS.enter, [tenant, id, interactive ? -1 : priority])) === 1;
  }

  /** Jobs that wait, placed and staged, by tenant. Cancelled ones may be counted for a while. */
  async waiting(): Promise<Map<string, number>> {
    const reply = await this.#run(SCRIPTS.waiting, []);
    const flat: unknown[] = Array.isArray(reply) ? reply : [];
    const waiting = new Map<string, number>();
    for (let at = 0; at + 1 < flat.length; at += 2) {
      waiting.set(String(flat[at]), Number(flat[at + 1]));
    }
    return waiting;
  }

  #run(script: RedisScript, args: readonly (string | number)[]): Promise<unknown> {
    const { clocks, tenants, counter, rules } = fairShareKeys(this.#connection, this.#queue);
    const base = bullKey(this.#connection, this.#queue, '');
    return script.run(
      this.#connection,
      [clocks, tenants, counter, rules],
      [base, this.#window, UNPLACED, STAGED_AT, ...args],
    );
  }
}

export interface SettlingOptions {
  readonly share: FairShare;
  /** Between two settlings that nobody is in a hurry for. */
  readonly pauseMs: number;
  /** As many requests are no longer kept waiting. @defaultValue no limit */
  readonly mostWaiting?: number;
  readonly onError: (error: unknown) => void;
}

/** Settles soon, and once for all who ask meanwhile. */
export class Settling {
  readonly #options: SettlingOptions;
  readonly #tenants = new Set<string>();
  #running: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Requests since the last settling that could wait. */
  #patient = 0;
  #closed = false;

  constructor(options: SettlingOptions) {
    this.#options = options;
  }

  /** At once, or as soon as what is under way has ended. What fails is left to the next one. */
  ask(tenant: string): void {
    if (this.#closed) return;
    this.#tenants.add(tenant);
    this.#cancelPause();
    this.#running ??= this.#settle();
  }

  /** In a while at the latest. */
  askSoon(tenant: string): void {
    if (this.#closed) return;
    this.#tenants.add(tenant);
    this.#patient += 1;
    const { mostWaiting = Number.POSITIVE_INFINITY, pauseMs } = this.#options;
    if (this.#patient >= mostWaiting) this.ask(tenant);
    if (this.#running !== undefined) return;
    this.#timer ??= setTimeout(() => this.ask(tenant), pauseMs).unref();
  }

  /** When all has been done that was asked for so far. */
  async settled(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelPause();
    await this.#running;
  }

  #cancelPause(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #settle(): Promise<void> {
    try {
      while (this.#tenants.size > 0) {
        const tenants = [...this.#tenants];
        this.#tenants.clear();
        this.#patient = 0;
        await this.#options.share.settle(tenants);
      }
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#running = undefined;
    }
  }
}
