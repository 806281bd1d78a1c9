/**
 * Cancelling across processes. A mark in Redis says that a job is to be cancelled and a message tells the workers to look:
 * the message makes it quick, and the mark makes it certain for a worker that picks the job up later or was away.
 */
import type { Redis } from 'ioredis';
import { WavepoolError } from '../core/errors.ts';
import { closeConnection, connect, openConnection, type RedisAddress } from './connection.ts';
import { cancelChannel, cancelMarkKey } from './queue-names.ts';

const MARK_SECONDS = 7 * 86_400;

/** A mark of an earlier job with the same id does not count: the time of submission tells them apart. */
export async function markCancelled(
  connection: Redis,
  queue: string,
  id: string,
  submittedAt: number,
): Promise<void> {
  await connection.set(cancelMarkKey(queue, id), String(submittedAt), 'EX', MARK_SECONDS);
}

export async function clearCancelMark(connection: Redis, queue: string, id: string): Promise<void> {
  await connection.del(cancelMarkKey(queue, id));
}

export async function announceCancel(connection: Redis, queue: string, id: string): Promise<void> {
  await connection.publish(cancelChannel(queue), id);
}

export interface WatchedJob {
  readonly id: string;
  /** From the job's data. */
  readonly submittedAt: number;
}

export interface CancellationWatch extends Disposable {
  /** Aborts with CANCELLED as its reason. */
  readonly signal: AbortSignal;
  /** Call when the job has ended. Idempotent. */
  stop(): void;
}

interface Watched {
  readonly submittedAt: number;
  readonly controller: AbortController;
}

export interface CancellationListenerOptions {
  readonly address: RedisAddress;
  readonly queue: string;
  /** Told when a request could not be looked up; the job runs on. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A worker's ear for cancel requests of one queue. */
export class CancellationListener {
  readonly #queue: string;
  readonly #subscriber: Redis;
  readonly #reader: Redis;
  readonly #onError: (error: unknown) => void;
  readonly #watched = new Map<string, Watched>();

  private constructor(options: CancellationListenerOptions, subscriber: Redis, reader: Redis) {
    this.#queue = options.queue;
    this.#subscriber = subscriber;
    this.#reader = reader;
    this.#onError = options.onError ?? (() => undefined);
    subscriber.on('message', (_channel: string, id: string) => this.#look([id]));
    // Requests made while the connection was down were not heard.
    subscriber.on('ready', () => this.#look([...this.#watched.keys()]));
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: CancellationListenerOptions): Promise<CancellationListener> {
    const { address, queue } = options;
    const subscriber = openConnection(address, { role: 'patient', name: 'cancel' });
    const reader = openConnection(address, { role: 'patient', name: 'cancel-marks' });
    try {
      await Promise.all([connect(subscriber, address), connect(reader, address)]);
      await subscriber.subscribe(cancelChannel(queue));
    } catch (error) {
      closeConnection(subscriber);
      closeConnection(reader);
      throw error;
    }
    return new CancellationListener(options, subscriber, reader);
  }

  /** Call before the first step of a job: a request made earlier aborts the signal before this returns. */
  async watch({ id, submittedAt }: WatchedJob): Promise<CancellationWatch> {
    const entry: Watched = { submittedAt, controller: new AbortController() };
    this.#watched.set(id, entry);
    const stop = (): void => {
      if (this.#watched.get(id) === entry) this.#watched.delete(id);
    };
    try {
      await this.#abortMarked([id]);
    } catch (error) {
      stop();
      throw error;
    }
    return { signal: entry.controller.signal, stop, [Symbol.dispose]: stop };
  }

  /** Idempotent. */
  close(): void {
    this.#watched.clear();
    closeConnection(this.#subscriber);
    closeConnection(this.#reader);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #look(ids: readonly string[]): void {
    this.#abortMarked(ids.filter((id) => this.#watched.has(id))).catch(this.#onError);
  }

  async #abortMarked(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const marks = await this.#reader.mget(ids.map((id) => cancelMarkKey(this.#queue, id)));
    for (const [index, id] of ids.entries()) {
      const entry = this.#watched.get(id);
      if (entry === undefined || marks[index] !== String(entry.submittedAt)) continue;
      entry.controller.abort(new WavepoolError('CANCELLED', `job ${id}`));
    }
  }
}
