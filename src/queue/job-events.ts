/** What happens to the jobs of one queue, from its event stream, made good from the jobs' state where the stream is not enough. */
import type { Redis } from 'ioredis';
import { WavepoolError } from '../core/errors.ts';
import { type JobOutcome, JobProgress } from '../core/job.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
  toRedisError,
} from './connection.ts';
import { EventStream, type StreamEvent } from './event-stream.ts';
import type { JobFailure } from './failures.ts';
import { NO_EVENT, parseJson, readJobEnds } from './job-ends.ts';
import { completedEnd, failedEnd, type JobEnd } from './job-view.ts';

export interface JobEventMap {
  /** Added, handed back, or about to be tried again. */
  waiting: { readonly id: string };
  /** Picked up by a worker. */
  running: { readonly id: string };
  progress: { readonly id: string; readonly progress: JobProgress };
  /** Its worker lost the lock. */
  stalled: { readonly id: string };
  completed: { readonly id: string; readonly outcome: JobOutcome };
  /** For good: no further attempt follows. */
  failed: { readonly id: string; readonly failure: JobFailure };
  removed: { readonly id: string };
  /** The event stream, or a listener, failed; events go on. */
  error: unknown;
}

export type JobListener<Name extends keyof JobEventMap> = (event: JobEventMap[Name]) => void;

interface Waiter {
  readonly settle: (end: JobEnd) => void;
  readonly fail: (error: unknown) => void;
}

type Listeners = { [Name in keyof JobEventMap]: Set<JobListener<Name>> };

/** Jobs whose state is read at once. */
const CHUNK = 500;

/** Event ids are `milliseconds-number`. */
function isAfter(id: string, other: string): boolean {
  const [ms = 0, number = 0] = id.split('-').map(Number);
  const [otherMs = 0, otherNumber = 0] = other.split('-').map(Number);
  return ms > otherMs || (ms === otherMs && number > otherNumber);
}

export interface JobEventsOptions {
  readonly address: RedisAddress;
  readonly queue: string;
  /** How often the state of watched jobs is read, for ends that the stream did not tell. */
  readonly reconcileIntervalMs: number;
}

export class JobEvents {
  readonly #queue: string;
  readonly #connection: Redis;
  readonly #timer: NodeJS.Timeout;
  readonly #listeners: Listeners = {
    waiting: new Set(),
    running: new Set(),
    progress: new Set(),
    stalled: new Set(),
    completed: new Set(),
    failed: new Set(),
    removed: new Set(),
    error: new Set(),
  };
  /** Jobs whose end listeners are promised, once, even when the stream has lost it. */
  readonly #watched = new Set<string>();
  readonly #waiters = new Map<string, Set<Waiter>>();
  /** Ends told from state, with the last event id at that time: an older event for such a job is the same news. */
  readonly #told = new Map<string, string>();
  #stream: EventStream | undefined;
  #reconciling: Promise<void> | undefined;

  private constructor({ queue, reconcileIntervalMs }: JobEventsOptions, connection: Redis) {
    this.#queue = queue;
    this.#connection = connection;
    this.#timer = setInterval(() => {
      this.#reconcileAll();
    }, reconcileIntervalMs).unref();
  }

  /**
   * Every event after this call is seen.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  static async open(options: JobEventsOptions): Promise<JobEvents> {
    const { address, queue } = options;
    const connection = openConnection(address, { role: 'patient', name: 'job-ends' });
    await connect(connection, address);
    const events = new JobEvents(options, connection);
    try {
      events.#stream = await EventStream.open({
        address,
        queue,
        onEvent: (event) => events.#hear(event),
        onError: (error) => events.#report(error),
      });
    } catch (error) {
      events.close();
      throw error;
    }
    return events;
  }

  on<Name extends keyof JobEventMap>(name: Name, listener: JobListener<Name>): void {
    this.#listeners[name].add(listener);
  }

  off<Name extends keyof JobEventMap>(name: Name, listener: JobListener<Name>): void {
    this.#listeners[name].delete(listener);
  }

  /** Makes sure that `completed`, `failed` or `removed` is told once for each of these jobs, be it in the past. */
  async watch(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#watched.add(id);
    await this.#reconcile(ids);
  }

  unwatch(ids: readonly string[]): void {
    for (const id of ids) this.#watched.delete(id);
  }

  /** How the job ends or ended. Rejects with the signal's reason. */
  waitForEnd(id: string, signal?: AbortSignal): Promise<JobEnd> {
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(id) ?? new Set();
      const leave = (): void => {
        signal?.removeEventListener('abort', abort);
        waiters.delete(waiter);
        if (waiters.size === 0 && this.#waiters.get(id) === waiters) this.#waiters.delete(id);
      };
      const waiter: Waiter = {
        settle: (end) => {
          leave();
          resolve(end);
        },
        fail: (error) => {
          leave();
          reject(error instanceof Error ? error : new Error(String(error)));
        },
      };
      const abort = (): void => waiter.fail(signal?.reason);
      waiters.add(waiter);
      this.#waiters.set(id, waiters);
      signal?.addEventListener('abort', abort);
      if (signal?.aborted) abort();
      else this.#reconcile([id]).catch(waiter.fail);
    });
  }

  /** Whoever still waits for a job gets SHUTTING_DOWN. Idempotent. */
  close(): void {
    clearInterval(this.#timer);
    this.#stream?.close();
    closeConnection(this.#connection);
    const error = new WavepoolError('SHUTTING_DOWN', 'the queue was closed');
    for (const waiters of this.#waiters.values()) {
      for (const waiter of waiters) waiter.fail(error);
    }
  }

  #hear({ id: eventId, name, fields }: StreamEvent): void {
    const { jobId: id, data, returnvalue, failedReason } = fields;
    if (id === undefined) return;
    switch (name) {
      case 'waiting':
      case 'stalled':
        this.#emit(name, { id });
        break;
      case 'active':
        this.#emit('running', { id });
        break;
      case 'progress': {
        const progress = JobProgress.safeParse(parseJson(data)).data;
        if (progress !== undefined) this.#emit('progress', { id, progress });
        break;
      }
      case 'completed':
        this.#hearEnd(id, eventId, completedEnd(parseJson(returnvalue)));
        break;
      case 'failed':
        this.#hearEnd(id, eventId, failedEnd(failedReason ?? ''));
        break;
      case 'removed':
        this.#hearEnd(id, eventId, { kind: 'removed' });
        break;
      default: // BullMQ writes more than is of interest here.
    }
  }

  #hearEnd(id: string, eventId: string, end: JobEnd): void {
    const toldUpTo = this.#told.get(id);
    if (toldUpTo !== undefined && !isAfter(eventId, toldUpTo)) return;
    this.#watched.delete(id);
    this.#tell(id, end);
    this.#settleWaiters(id, end);
  }

  #tell(id: string, end: JobEnd): void {
    switch (end.kind) {
      case 'completed':
        this.#emit('completed', { id, outcome: end.outcome });
        break;
      case 'failed':
        this.#emit('failed', { id, failure: end.failure });
        break;
      case 'removed':
        this.#emit('removed', { id });
    }
  }

  #settleWaiters(id: string, end: JobEnd): void {
    for (const waiter of [...(this.#waiters.get(id) ?? [])]) waiter.settle(end);
  }

  #reconcileAll(): void {
    this.#reconciling ??= this.#reconcile([...this.#watched, ...this.#waiters.keys()])
      .catch((error: unknown) => this.#report(error))
      .finally(() => {
        this.#reconciling = undefined;
      });
  }

  /** Reads the state of these jobs and tells the ends that were not told. */
  async #reconcile(ids: readonly string[]): Promise<void> {
    const position = this.#stream?.position ?? NO_EVENT;
    for (const [id, upTo] of this.#told) if (isAfter(position, upTo)) this.#told.delete(id);
    for (let start = 0; start < ids.length; start += CHUNK) {
      const chunk = ids.slice(start, start + CHUNK);
      const { ends, lastEventId } = await readJobEnds(this.#connection, this.#queue, chunk);
      for (const [id, end] of ends) this.#conclude(id, end, lastEventId);
    }
  }

  /** An end from the job's state. */
  #conclude(id: string, end: JobEnd, upTo: string): void {
    if (this.#watched.delete(id)) {
      this.#told.set(id, upTo);
      this.#tell(id, end);
    }
    this.#settleWaiters(id, end);
  }

  /** A listener that throws breaks neither the stream nor the other listeners. */
  #emit<Name extends keyof JobEventMap>(name: Name, event: JobEventMap[Name]): void {
    for (const listener of [...this.#listeners[name]]) {
      try {
        listener(event);
      } catch (error) {
        if (name !== 'error') this.#report(error);
      }
    }
  }

  #report(error: unknown): void {
    this.#emit('error', toRedisError(error));
  }
}
