/**
 * Sends the events of all queues to many subscribers. Each queue's event stream is read once, however many subscribers there
 * are. The latest events stay in memory. A client that comes back reads from Redis until memory holds all that it lacks; then
 * it takes the rest from memory and subscribes in the same turn of the event loop, so that it misses nothing.
 */
import {
  type EventPositions,
  encodePositions,
  isAfter,
  STREAM_START,
  type StreamId,
} from '../../core/http/event-position.ts';
import type { ModelId } from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import { readEventPage, type StreamEvent } from '../../queue/events/event-history.ts';
import type { QueueRegistry } from '../../queue/queue-registry.ts';
import { BroadcastEvent, EventChunk, type IdentifiedEvent } from './broadcast-event.ts';

/** Runs the task each time that so many milliseconds have passed. Returns a function that ends it. */
export type Every = (ms: number, task: () => void) => () => void;

/** Gets all events. An error that its methods throw is a bug. */
export interface EventSubscriber {
  onEvents(chunk: EventChunk): void;
  /** @param id the position up to which all events were sent */
  onHeartbeat(id: string): void;
  wantsModel(model: ModelId): boolean;
  /** Events were missed before the next ones. */
  onGap(): void;
}

/** Gets the events of one job. */
export interface JobSubscriber {
  onEvent(event: BroadcastEvent): void;
  onHeartbeat(): void;
  onGap(): void;
}

interface FollowedQueue {
  readonly queue: AudioQueue;
  /** The last event that was sent. */
  position: StreamId;
  /** Memory holds every event after this one. */
  memoryStart: StreamId;
}

export interface EventBroadcasterOptions {
  readonly queues: QueueRegistry;
  readonly every: Every;
  readonly logger: Logger;
}

/** Proxies and clients take a longer silence for a broken connection. */
export const HEARTBEAT_MS = 15_000;
/** This many events stay in memory. */
const EVENTS_IN_MEMORY = 4_096;
const HISTORY_PAGE = 1_000;
/** The queue of a new model is found within this time. */
const DISCOVERY_MS = 5_000;

export class EventBroadcaster {
  readonly #options: EventBroadcasterOptions;
  readonly #followed = new Map<ModelId, FollowedQueue>();
  readonly #memory: BroadcastEvent[] = [];
  readonly #subscribers = new Set<EventSubscriber>();
  readonly #jobSubscribers = new Map<string, Set<JobSubscriber>>();
  readonly #waiting = new Set<() => void>();
  #following: Promise<void> | undefined;
  #timers: (() => void)[] = [];
  #started = false;

  constructor(options: EventBroadcasterOptions) {
    this.#options = options;
  }

  /** How many there are now, those of single jobs included. */
  get subscribers(): number {
    const ofJobs = [...this.#jobSubscribers.values()].reduce((sum, { size }) => sum + size, 0);
    return this.#subscribers.size + ofJobs;
  }

  get models(): readonly ModelId[] {
    return [...this.#followed.keys()];
  }

  /** The last event of each queue that was sent. */
  get positions(): Map<ModelId, StreamId> {
    return new Map([...this.#followed].map(([model, { position }]) => [model, position]));
  }

  /** How far a client at `position` must read from Redis; undefined when memory holds all later events. */
  missingUpTo(model: ModelId, position: StreamId): StreamId | undefined {
    const followed = this.#followed.get(model);
    return followed && isAfter(followed.memoryStart, position) ? followed.position : undefined;
  }

  /** The events in memory after these positions. They are all there are when `missingUpTo` is undefined for each queue. */
  inMemoryAfter(positions: EventPositions): BroadcastEvent[] {
    return this.#memory.filter(({ model, raw }) =>
      isAfter(raw.id, positions.get(model) ?? STREAM_START),
    );
  }

  /** Resolves when the next events were read from a queue, or the signal aborts. */
  async nextEvents(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.#waiting.delete(settle);
        signal.removeEventListener('abort', settle);
        resolve();
      };
      this.#waiting.add(settle);
      signal.addEventListener('abort', settle);
    });
  }

  /** Sends events from now on. Returns a function that ends the subscription. */
  subscribe(subscriber: EventSubscriber): () => void {
    this.#subscribers.add(subscriber);
    this.#startTimers();
    return () => {
      this.#subscribers.delete(subscriber);
      this.#stopTimersWhenUnused();
    };
  }

  /** Sends the events of a job from now on. Returns a function that ends the subscription. */
  subscribeToJob(model: ModelId, jobId: string, subscriber: JobSubscriber): () => void {
    const key = `${model}/${jobId}`;
    const subscribers = this.#jobSubscribers.get(key) ?? new Set();
    this.#jobSubscribers.set(key, subscribers.add(subscriber));
    this.#startTimers();
    return () => {
      subscribers.delete(subscriber);
      if (subscribers.size === 0 && this.#jobSubscribers.get(key) === subscribers)
        this.#jobSubscribers.delete(key);
      this.#stopTimersWhenUnused();
    };
  }

  /**
   * Follows the queues of all models that are known now. The earlier events of a new queue are sent, too.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  followQueues(): Promise<void> {
    this.#following ??= this.#followNewQueues().finally(() => {
      this.#following = undefined;
    });
    return this.#following;
  }

  async #followNewQueues(): Promise<void> {
    const isFirst = !this.#started;
    for (const model of await this.#options.queues.models()) {
      if (this.#followed.has(model)) continue;
      await this.#follow(await this.#options.queues.queueOf(model), isFirst);
    }
    this.#started = true;
  }

  /** @param fromNow false for a queue that is new, of which every event is sent */
  async #follow(queue: AudioQueue, fromNow: boolean): Promise<void> {
    const { model } = queue;
    const upTo = queue.eventPosition;
    const start = fromNow ? upTo : STREAM_START;
    const followed = { queue, position: start, memoryStart: start };
    let early: StreamEvent[] | undefined = [];
    const stop = queue.listen({
      onEvents: (events) => {
        if (early === undefined) this.#send(model, followed, events);
        else early.push(...events);
      },
      onGap: () => this.#skip(model, followed),
    });
    this.#followed.set(model, followed);
    try {
      await this.#sendHistory(model, followed, upTo);
    } catch (error) {
      stop();
      this.#followed.delete(model);
      throw error;
    }
    this.#send(model, followed, early);
    early = undefined;
  }

  async #sendHistory(model: ModelId, followed: FollowedQueue, upTo: StreamId): Promise<void> {
    const { connection } = this.#options.queues;
    while (isAfter(upTo, followed.position)) {
      const range = { after: followed.position, upTo, count: HISTORY_PAGE };
      const { events } = await readEventPage(connection, followed.queue.name, range);
      if (events.length === 0) return;
      this.#send(model, followed, events);
    }
  }

  #send(model: ModelId, followed: FollowedQueue, read: readonly StreamEvent[]): void {
    const identified: IdentifiedEvent[] = [];
    for (const raw of read) {
      followed.position = raw.id;
      const event = BroadcastEvent.of(model, raw);
      if (event === undefined) continue;
      this.#memory.push(event);
      if (this.#subscribers.size > 0)
        identified.push({ id: encodePositions(this.positions), event });
      this.#sendToJob(event);
    }
    this.#forgetOldest();
    for (const settle of [...this.#waiting]) settle();
    if (identified.length === 0) return;
    const chunk = new EventChunk(identified);
    for (const subscriber of [...this.#subscribers]) subscriber.onEvents(chunk);
  }

  #sendToJob(event: BroadcastEvent): void {
    if (event.jobId === undefined) return;
    const subscribers = this.#jobSubscribers.get(`${event.model}/${event.jobId}`);
    for (const subscriber of [...(subscribers ?? [])]) subscriber.onEvent(event);
  }

  #forgetOldest(): void {
    const excess = this.#memory.length - EVENTS_IN_MEMORY;
    if (excess <= 0) return;
    for (const { model, raw } of this.#memory.splice(0, excess)) {
      const followed = this.#followed.get(model);
      if (followed !== undefined) followed.memoryStart = raw.id;
    }
  }

  /** This server missed events as well. Clients learn which of theirs are lost when they come back. */
  #skip(model: ModelId, followed: FollowedQueue): void {
    followed.position = followed.queue.eventPosition;
    followed.memoryStart = followed.position;
    for (const subscriber of [...this.#subscribers])
      if (subscriber.wantsModel(model)) subscriber.onGap();
    for (const [key, subscribers] of [...this.#jobSubscribers]) {
      if (key.startsWith(`${model}/`))
        for (const subscriber of [...subscribers]) subscriber.onGap();
    }
  }

  #startTimers(): void {
    if (this.#timers.length > 0) return;
    const { every, logger } = this.#options;
    this.#timers = [
      every(HEARTBEAT_MS, () => this.#sendHeartbeats()),
      every(DISCOVERY_MS, () => {
        this.followQueues().catch((err: unknown) =>
          logger.warn({ err }, 'cannot look for new queues'),
        );
      }),
    ];
  }

  #stopTimersWhenUnused(): void {
    if (this.#subscribers.size > 0 || this.#jobSubscribers.size > 0) return;
    for (const stop of this.#timers) stop();
    this.#timers = [];
  }

  #sendHeartbeats(): void {
    const id = encodePositions(this.positions);
    for (const subscriber of [...this.#subscribers]) subscriber.onHeartbeat(id);
    for (const subscribers of [...this.#jobSubscribers.values()]) {
      for (const subscriber of [...subscribers]) subscriber.onHeartbeat();
    }
  }
}
