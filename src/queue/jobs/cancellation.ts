/**
 * Cancelling across processes. A job that waits is ended here, by whoever asks for it. For a job that runs, a mark in Redis
 * says that it is to be cancelled and a message tells the workers to look: the message makes it quick, and the mark makes it
 * certain for a worker that picks the job up later or was away.
 */
import { randomUUID } from 'node:crypto';
import type { Job } from 'bullmq';
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { type JobId, parseJobData } from '../../core/job/job.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../redis/connection.ts';
import { bullKey, cancelChannel, cancelMarkKey } from '../redis/queue-names.ts';
import { CANCELLED_PREFIX, toQueueError } from './failures.ts';

const MARK_SECONDS = 7 * 86_400;
const CANCEL_ATTEMPTS = 5;
/** How long a job that is being ended here is locked. */
const LOCK_MS = 30_000;

/**
 * `cancelled`: it was waiting, or had just been taken, and has ended. `requested`: it runs, and its worker has been told. `finished`: too late.
 */
export type CancelResult = 'cancelled' | 'requested' | 'finished';

/** Cancels one job, whatever state it is in. */
export async function cancelJob(
  connection: Redis,
  queue: string,
  job: Job,
  id: JobId,
): Promise<CancelResult> {
  const { submittedAt } = parseJobData(job.data);
  const cancelled = new WavepoolError('CANCELLED', `job ${id}`);
  await markCancelled(connection, queue, id, submittedAt);
  // Between two looks the job may be picked up, or wait for its next attempt.
  for (let attempt = 1; attempt <= CANCEL_ATTEMPTS; attempt++) {
    if (await failWaiting(connection, job, id, cancelled)) {
      await clearCancelMark(connection, queue, id);
      return 'cancelled';
    }
    const state = await job.getState();
    if (state === 'completed' || state === 'failed' || state === 'unknown') {
      await clearCancelMark(connection, queue, id);
      // A worker that takes a marked job ends it, perhaps before it is looked at here.
      return state === 'failed' && (await wasCancelledSince(connection, queue, job, id))
        ? 'cancelled'
        : 'finished';
    }
    if (state === 'active') break;
  }
  await announceCancel(connection, queue, id);
  return 'requested';
}

/** Whether a cancel has ended the job since the caller read it. */
async function wasCancelledSince(
  connection: Redis,
  queue: string,
  job: Job,
  id: JobId,
): Promise<boolean> {
  if (job.finishedOn !== undefined) return false;
  const [reason] = await connection.hmget(bullKey(connection, queue, id), 'failedReason');
  return reason?.startsWith(CANCELLED_PREFIX) ?? false;
}

/**
 * Takes one particular job, as a worker takes the next one. BullMQ offers no call for it, and its `remove` would also
 * remove a job that finished a moment ago. From here BullMQ's own code ends the job; should this process die in between,
 * the lock runs out and the stall check puts the job back.
 *
 *   KEYS[1] wait  KEYS[2] paused  KEYS[3] prioritized  KEYS[4] delayed  KEYS[5] active  KEYS[6] the job's lock
 *   ARGV[1] job id  ARGV[2] lock token  ARGV[3] lock time in milliseconds
 *   returns 1 when the job was taken, 0 when it waits nowhere
 */
const TAKE_WAITING_JOB = `
local found = redis.call('LREM', KEYS[1], 0, ARGV[1]) + redis.call('LREM', KEYS[2], 0, ARGV[1])
  + redis.call('ZREM', KEYS[3], ARGV[1]) + redis.call('ZREM', KEYS[4], ARGV[1])
if found == 0 then return 0 end
redis.call('LPUSH', KEYS[5], ARGV[1])
redis.call('SET', KEYS[6], ARGV[2], 'PX', ARGV[3])
return 1
`;

/**
 * Ends a job that no worker holds: a cancelled one, or one whose deadline has passed. Returns whether the job was waiting
 * and has failed now; a job that runs or has finished is left alone.
 */
export async function failWaiting(
  connection: Redis,
  job: Job,
  id: string,
  error: WavepoolError,
): Promise<boolean> {
  const token = randomUUID();
  const keys = ['wait', 'paused', 'prioritized', 'delayed', 'active', `${id}:lock`].map((type) =>
    bullKey(connection, job.queueName, type),
  );
  const taken = await connection.eval(TAKE_WAITING_JOB, keys.length, ...keys, id, token, LOCK_MS);
  if (taken !== 1) return false;
  await job.moveToFailed(toQueueError(error), token);
  return true;
}

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

export interface CancellationListenerOptions {
  readonly address: RedisAddress;
  readonly queue: string;
  /** Reads marks; stays the caller's. @defaultValue a connection of its own */
  readonly reader?: Redis | undefined;
  /** Told when a request could not be looked up; the job runs on. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Hears the cancel requests of one queue for a worker. */
export class CancellationListener {
  readonly #queue: string;
  readonly #subscriber: Redis;
  readonly #reader: Redis;
  readonly #ownReader: Redis | undefined;
  readonly #onError: (error: unknown) => void;
  readonly #watched = new Map<string, WatchedJob>();

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
    subscriber.on('message', (_channel: string, id: string) => {
      this.#cancelMarked([id]).catch(this.#onError);
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
    this.#watched.set(job.id, job);
    const stop = () => this.#forget(job);
    try {
      // What is announced from now on is heard; what was announced before has left its mark.
      await this.#cancelMarked([job.id]);
    } catch (error) {
      stop();
      throw error;
    }
    return { stop, [Symbol.dispose]: stop };
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

  #forget(job: WatchedJob): void {
    if (this.#watched.get(job.id) === job) this.#watched.delete(job.id);
  }

  /** Requests made while the connection was down were not heard. */
  async #hearAgain(): Promise<void> {
    // ioredis has asked for it already, but does not tell when it is so.
    await this.#subscriber.subscribe(cancelChannel(this.#subscriber, this.#queue));
    await this.#cancelMarked([...this.#watched.keys()]);
  }

  async #cancelMarked(ids: readonly string[]): Promise<void> {
    const jobs = ids.flatMap((id) => this.#watched.get(id) ?? []);
    if (jobs.length === 0) return;
    const marks = await this.#reader.mget(
      jobs.map(({ id }) => cancelMarkKey(this.#reader, this.#queue, id)),
    );
    for (const [index, job] of jobs.entries()) {
      if (this.#watched.get(job.id) !== job || marks[index] !== String(job.submittedAt)) continue;
      this.#forget(job);
      job.cancel(new WavepoolError('CANCELLED', `job ${job.id}`));
    }
  }
}
