/**
 * Cancelling across processes. A mark in Redis says that a job is to be cancelled and a message tells the workers to look:
 * the message makes it quick, and the mark makes it certain for a worker that picks the job up later or was away.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../redis/connection.ts';
import { cancelChannel, cancelMarkKey } from '../redis/queue-names.ts';

const MARK_SECONDS = 7 * 86_400;
/** More announcements do not come between the taking of a job and the answer that tells its worker. */
const MOST_UNWATCHED = 10_000;

/** A mark of an earlier job with the same id does not count: the time of submission tells them apart. */
export async function markCancelled(
  connection: Redis,
  queue: string,
  id: string,
  submittedAt: number,
): Promise<void> {
  await connection.set(
    cancelMarkKey(connection, queue, id),
    String(submittedAt),
    'EX',
    MARK_SECONDS,
  );
}

export async function clearCancelMark(connection: Redis, queue: string, id: string): Promise<void> {
  await connection.del(cancelMarkKey(connection, queue, id));
}

export async function announceCancel(connection: Redis, queue: string, id: string): Promise<void> {
  await connection.publish(cancelChannel(connection, queue), id);
}

export interface WatchedJob {
  readonly id: string;
  /** From the job's data. */
  readonly submittedAt: number;
  /** Called with CANCELLED, once at most and never after `stop`. */
  readonly cancel: (reason: WavepoolError) => void;
}

export interface CancellationWatch extends Disposable {
  /** Call when the job has ended. Idempotent. */
  stop(): void;
}

/** Jobs whose marks are read with one command. */
interface Lookup {
  readonly ids: string[];
  readonly done: Promise<void>;
}

export interface CancellationListenerOptions {
  readonly address: RedisAddress;
  readonly queue: string;
  /**
   * Reads marks; stays the caller's. For `watchAtOnce` the one on which jobs are taken. On a busy one questions travel with
   * other commands. @defaultValue a connection of its own
   */
  readonly reader?: Redis | undefined;
  /** Told when a request could not be looked up; the job runs on. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A worker's ear for cancel requests of one queue. */
export class CancellationListener {
  readonly #queue: string;
  readonly #subscriber: Redis;
  readonly #reader: Redis;
  readonly #ownReader: Redis | undefined;
  readonly #onError: (error: unknown) => void;
  readonly #watched = new Map<string, Watch>();
  /** Announced, and not watched then: their jobs may be on their way here. */
  readonly #unwatched = new Set<string>();
  /** How often the subscriber's connection has been lost. */
  #losses = 0;
  /** Whether everything has been heard that was announced since the jobs that are on their way were taken. */
  #hearsAll = true;
  /** The last command, however it ended or will end. */
  #asked: Promise<void> = Promise.resolve();
  /** Goes out when that one is answered. */
  #next: Lookup | undefined;

  private constructor(
    options: CancellationListenerOptions,
    subscriber: Redis,
    { reader, ownReader }: { readonly reader: Redis; readonly ownReader: Redis | undefined },
  ) {
    this.#queue = options.queue;
    this.#subscriber = subscriber;
    this.#ownReader = ownReader;
    this.#reader = reader;
    this.#onError = options.onError ?? (() => undefined);
    subscriber.on('message', (_channel: string, id: string) => this.#hear(id));
    subscriber.on('close', () => {
      this.#losses += 1;
      this.#hearsAll = false;
    });
    subscriber.on('ready', () => void this.#hearAgain().catch(this.#onError));
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: CancellationListenerOptions): Promise<CancellationListener> {
    const { address, queue } = options;
    const subscriber = openConnection(address, { role: 'patient', name: 'cancel' });
    const reader =
      options.reader ?? openConnection(address, { role: 'patient', name: 'cancel-marks' });
    const ownReader = options.reader === undefined ? reader : undefined;
    try {
      await Promise.all([connect(subscriber, address), ownReader && connect(ownReader, address)]);
      await subscriber.subscribe(cancelChannel(subscriber, queue));
    } catch (error) {
      closeConnection(subscriber);
      if (ownReader) closeConnection(ownReader);
      throw error;
    }
    return new CancellationListener(options, subscriber, { reader, ownReader });
  }

  /** Call before the first step of a job: a request made earlier cancels it before this returns. */
  async watch(job: WatchedJob): Promise<CancellationWatch> {
    const watch = new Watch(this.#watched, job);
    this.#watched.set(job.id, watch);
    try {
      await this.#abortMarked([job.id]);
    } catch (error) {
      watch.stop();
      throw error;
    }
    return watch;
  }

  /**
   * As `watch`, without asking Redis, for a job that nobody had taken before: who wants to end it finds it taken, and announces
   * that. Undefined when it has to be asked for all the same.
   */
  watchAtOnce(job: WatchedJob): CancellationWatch | undefined {
    if (!this.#hearsAll || this.#unwatched.delete(job.id)) return undefined;
    const watch = new Watch(this.#watched, job);
    this.#watched.set(job.id, watch);
    return watch;
  }

  /** Idempotent. */
  close(): void {
    this.#watched.clear();
    closeConnection(this.#subscriber);
    if (this.#ownReader) closeConnection(this.#ownReader);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #hear(id: string): void {
    if (this.#watched.has(id)) {
      this.#abortMarked([id]).catch(this.#onError);
      return;
    }
    this.#unwatched.add(id);
    const [oldest] = this.#unwatched;
    if (oldest !== undefined && this.#unwatched.size > MOST_UNWATCHED)
      this.#unwatched.delete(oldest);
  }

  /** Requests made while the connection was down were not heard. */
  async #hearAgain(): Promise<void> {
    const losses = this.#losses;
    // ioredis has asked for it already, but does not tell when it is so.
    await this.#subscriber.subscribe(cancelChannel(this.#subscriber, this.#queue));
    // Jobs that were taken before are answered before the ping is, and are watched a turn later.
    await Promise.all([this.#abortMarked([...this.#watched.keys()]), this.#reader.ping()]);
    await turn();
    if (losses === this.#losses) this.#hearsAll = true;
  }

  /** One command at a time: a busy worker takes many jobs while it waits for an answer, and asks for them together. */
  #abortMarked(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return Promise.resolve();
    this.#next ??= this.#openLookup();
    this.#next.ids.push(...ids);
    return this.#next.done;
  }

  #openLookup(): Lookup {
    const ids: string[] = [];
    const done = this.#asked.then(() => {
      this.#next = undefined;
      return this.#readMarks(ids);
    });
    this.#asked = done.catch(() => undefined);
    return { ids, done };
  }

  async #readMarks(ids: readonly string[]): Promise<void> {
    const marks = await this.#reader.mget(
      ids.map((id) => cancelMarkKey(this.#reader, this.#queue, id)),
    );
    for (const [index, id] of ids.entries()) {
      const watch = this.#watched.get(id);
      const job = watch?.job;
      if (job === undefined || marks[index] !== String(job.submittedAt)) continue;
      watch?.stop();
      job.cancel(new WavepoolError('CANCELLED', `job ${id}`));
    }
  }
}

/**
 * Forgets its job when it stops: V8 keeps what a busy `Map` has held until the next full collection, so that whatever hangs on
 * it would be copied by every small one until then.
 */
class Watch implements CancellationWatch {
  readonly #all: Map<string, Watch>;
  job: WatchedJob | undefined;

  constructor(all: Map<string, Watch>, job: WatchedJob) {
    this.#all = all;
    this.job = job;
  }

  stop(): void {
    if (this.job === undefined) return;
    const { id } = this.job;
    this.job = undefined;
    if (this.#all.get(id) === this) this.#all.delete(id);
  }

  [Symbol.dispose](): void {
    this.stop();
  }
}
