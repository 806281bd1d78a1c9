/** What happens to the jobs of one queue, from its event stream, made good from the jobs' state where the stream is not enough. */

import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { STREAM_START, type StreamId } from '../../core/http/event-position.ts';
import { type JobOutcome, JobProgress } from '../../core/job/job.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import type { JobFailure } from '../jobs/failures.ts';
import { completedEnd, failedEnd, type JobEnd } from '../jobs/job-view.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
  toRedisError,
} from '../redis/connection.ts';
import { EndTracker } from './end-tracker.ts';
import type { StreamEvent } from './event-history.ts';
import { EventStream } from './event-stream.ts';
import { JOB_END_READER, readJobEnds } from './job-ends.ts';

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

type Listeners = { [Name in keyof JobEventMap]: Set<JobListener<Name>> };

/** Everything that a queue's event stream holds, as it comes. */
export interface EventListener {
  readonly onEvents: (events: readonly StreamEvent[]) => void;
  /** Some events before the next ones are lost. */
  readonly onGap: () => void;
}

export interface JobEventsOptions {
  readonly address: RedisAddress;
  readonly queue: string;
  /** How often the state of watched jobs is read, for ends that the stream did not tell. */
  readonly reconcileIntervalMs: number;
}

export class JobEvents {
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
  readonly #ends: EndTracker;
  readonly #streamListeners = new Set<EventListener>();
  #stream: EventStream | undefined;
  #closed = false;

  private constructor({ queue, reconcileIntervalMs }: JobEventsOptions, connection: Redis) {
    this.#connection = connection;
    this.#ends = new EndTracker({
      read: (ids) => readJobEnds(connection, queue, ids, JOB_END_READER),
      tell: (id, end) => this.#tell(id, end),
    });
    this.#timer = setInterval(() => {
      this.#ends.lookAgain().catch((error: unknown) => this.#report(error));
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
        onEvents: (heard) => events.#hearAll(heard),
        onGap: () => events.#tellStream(({ onGap }) => onGap()),
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

  /** The place of the last event that listeners were told. */
  get position(): StreamId {
    return this.#stream?.position ?? STREAM_START;
  }

  /** Tells every event after `position`. Returns what ends it. */
  listen(listener: EventListener): () => void {
    this.#streamListeners.add(listener);
    return () => this.#streamListeners.delete(listener);
  }

  /** See `EndTracker`. */
  watch(ids: readonly string[]): Promise<void> {
    return this.#ends.watch(ids);
  }

  unwatch(ids: readonly string[]): void {
    this.#ends.unwatch(ids);
  }

  waitForEnd(id: string, signal?: AbortSignal): Promise<JobEnd> {
    return this.#ends.waitForEnd(id, signal);
  }

  /** Whoever still waits for a job gets SHUTTING_DOWN. Idempotent. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#stream?.close();
    this.#ends.fail(new WavepoolError('SHUTTING_DOWN', 'the queue was closed'));
    closeConnection(this.#connection);
  }

  #hearAll(events: readonly StreamEvent[]): void {
    for (const event of events) this.#hear(event);
    this.#tellStream(({ onEvents }) => onEvents(events));
  }

  #tellStream(tell: (listener: EventListener) => void): void {
    for (const listener of [...this.#streamListeners]) {
      try {
        tell(listener);
      } catch (error) {
        this.#report(error);
      }
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
        this.#ends.hear(id, eventId, completedEnd(parseJson(returnvalue)));
        break;
      case 'failed':
        this.#ends.hear(id, eventId, failedEnd(failedReason ?? ''));
        break;
      case 'removed':
        this.#ends.hear(id, eventId, { kind: 'removed' });
        break;
      default: // BullMQ writes more than is of interest here.
    }
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
    if (!this.#closed) this.#emit('error', toRedisError(error));
  }
}
