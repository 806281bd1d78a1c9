/**
 * One story of all queues for many readers. Each queue's event stream is read once, whoever listens; the latest events stay
 * in memory, so that a reader who comes back is a moment behind and never between two chairs: it catches up from Redis until
 * memory holds all that it lacks, and takes that and joins in the same turn.
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
import { EventBatch, type IdentifiedEvent } from './event-batch.ts';
import type { Every } from './every.ts';
import { FeedEvent } from './feed-event.ts';

/** Whoever is told of all events. What it throws is a bug. */
export interface LiveReader {
  take(batch: EventBatch): void;
  /** From time to time, with the id up to which everything was taken. */
  beat(id: string): void;
  wantsModel(model: ModelId): boolean;
  /** Events are missing before the next ones. */
  cutOff(): void;
}

/** Whoever is told of the events of one job. */
export interface JobReader {
  take(event: FeedEvent): void;
  beat(): void;
  cutOff(): void;
}

/** A queue as far as it was read. */
interface FollowedQueue {
  readonly queue: AudioQueue;
  /** Of the last event that readers were told. */
  position: StreamId;
  /** Memory holds everything after this. */
  floor: StreamId;
}

export interface EventHubOptions {
  readonly queues: QueueRegistry;
  readonly every: Every;
  readonly logger: Logger;
}

/** How often a reader hears something, for proxies and clients that take silence for an end. */
export const HEARTBEAT_MS = 15_000;
/** Events in memory. */
const KEPT = 4_096;
const HISTORY_PAGE = 1_000;
/** How soon the queue of a model that nobody knew is found. */
const DISCOVERY_MS = 5_000;

export class EventHub {
  readonly #options: EventHubOptions;
  readonly #followed = new Map<ModelId, FollowedQueue>();
  readonly #kept: FeedEvent[] = [];
  readonly #readers = new Set<LiveReader>();
  readonly #jobReaders = new Map<string, Set<JobReader>>();
  readonly #awaiting = new Set<() => void>();
  #refreshing: Promise<void> | undefined;
  #timers: (() => void)[] = [];
  #started = false;

  constructor(options: EventHubOptions) {
    this.#options = options;
  }

  /** Readers that are told of events now. */
  get readers(): number {
    const ofJobs = [...this.#jobReaders.values()].reduce((sum, { size }) => sum + size, 0);
    return this.#readers.size + ofJobs;
  }

  get models(): readonly ModelId[] {
    return [...this.#followed.keys()];
  }

  /** How far each queue has been told. */
  get positions(): Map<ModelId, StreamId> {
    return new Map([...this.#followed].map(([model, { position }]) => [model, position]));
  }

  /** Undefined when memory holds everything after `position`; else how far Redis must be read. */
  behind(model: ModelId, position: StreamId): StreamId | undefined {
    const followed = this.#followed.get(model);
    return followed && isAfter(followed.floor, position) ? followed.position : undefined;
  }

  /** What memory holds after these places; complete when nothing is `behind`. */
  after(positions: EventPositions): FeedEvent[] {
    return this.#kept.filter(({ model, raw }) =>
      isAfter(raw.id, positions.get(model) ?? STREAM_START),
    );
  }

  /** Resolves when the next events have been told. */
  async moved(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.#awaiting.delete(settle);
        signal.removeEventListener('abort', settle);
        resolve();
      };
      this.#awaiting.add(settle);
      signal.addEventListener('abort', settle);
    });
  }

  /** Tells events from now on. Returns what ends it. */
  join(reader: LiveReader): () => void {
    this.#readers.add(reader);
    this.#startTimers();
    return () => {
      this.#readers.delete(reader);
      this.#stopTimers();
    };
  }

  /** Tells a job's events from now on. Returns what ends it. */
  joinJob(model: ModelId, jobId: string, reader: JobReader): () => void {
    const key = `${model}/${jobId}`;
    const readers = this.#jobReaders.get(key) ?? new Set();
    this.#jobReaders.set(key, readers.add(reader));
    this.#startTimers();
    return () => {
      readers.delete(reader);
      if (readers.size === 0 && this.#jobReaders.get(key) === readers) this.#jobReaders.delete(key);
      this.#stopTimers();
    };
  }

  /**
   * Follows the queues of all models that are known by now. What a new one told before is told now.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#followNew().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #followNew(): Promise<void> {
    const isFirst = !this.#started;
    for (const model of await this.#options.queues.models()) {
      if (this.#followed.has(model)) continue;
      await this.#follow(await this.#options.queues.queueOf(model), isFirst);
    }
    this.#started = true;
  }

  /** @param fromNow otherwise from the beginning: the queue is new, and so are its events */
  async #follow(queue: AudioQueue, fromNow: boolean): Promise<void> {
    const { model } = queue;
    const upTo = queue.eventPosition;
    const start = fromNow ? upTo : STREAM_START;
    const followed = { queue, position: start, floor: start };
    let early: StreamEvent[] | undefined = [];
    const stop = queue.listen({
      onEvents: (events) => {
        if (early === undefined) this.#tell(model, followed, events);
        else early.push(...events);
      },
      onGap: () => this.#skip(model, followed),
    });
    this.#followed.set(model, followed);
    try {
      await this.#tellHistory(model, followed, upTo);
    } catch (error) {
      stop();
      this.#followed.delete(model);
      throw error;
    }
    this.#tell(model, followed, early);
    early = undefined;
  }

  async #tellHistory(model: ModelId, followed: FollowedQueue, upTo: StreamId): Promise<void> {
    const { connection } = this.#options.queues;
    while (isAfter(upTo, followed.position)) {
      const range = { after: followed.position, upTo, count: HISTORY_PAGE };
      const { events } = await readEventPage(connection, followed.queue.name, range);
      if (events.length === 0) return;
      this.#tell(model, followed, events);
    }
  }

  #tell(model: ModelId, followed: FollowedQueue, heard: readonly StreamEvent[]): void {
    const batch: IdentifiedEvent[] = [];
    for (const raw of heard) {
      followed.position = raw.id;
      const event = FeedEvent.of(model, raw);
      if (event === undefined) continue;
      this.#kept.push(event);
      if (this.#readers.size > 0) batch.push({ id: encodePositions(this.positions), event });
      this.#tellJob(event);
    }
    this.#forgetOldest();
    for (const settle of [...this.#awaiting]) settle();
    if (batch.length === 0) return;
    const told = new EventBatch(batch);
    for (const reader of [...this.#readers]) reader.take(told);
  }

  #tellJob(event: FeedEvent): void {
    if (event.jobId === undefined) return;
    const readers = this.#jobReaders.get(`${event.model}/${event.jobId}`);
    for (const reader of [...(readers ?? [])]) reader.take(event);
  }

  #forgetOldest(): void {
    const excess = this.#kept.length - KEPT;
    if (excess <= 0) return;
    for (const { model, raw } of this.#kept.splice(0, excess)) {
      const followed = this.#followed.get(model);
      if (followed !== undefined) followed.floor = raw.id;
    }
  }

  /** Events were missed here, too: readers find out how many of theirs when they come back. */
  #skip(model: ModelId, followed: FollowedQueue): void {
    followed.position = followed.queue.eventPosition;
    followed.floor = followed.position;
    for (const reader of [...this.#readers]) if (reader.wantsModel(model)) reader.cutOff();
    for (const [key, readers] of [...this.#jobReaders]) {
      if (key.startsWith(`${model}/`)) for (const reader of [...readers]) reader.cutOff();
    }
  }

  #startTimers(): void {
    if (this.#timers.length > 0) return;
    const { every, logger } = this.#options;
    this.#timers = [
      every(HEARTBEAT_MS, () => this.#beat()),
      every(DISCOVERY_MS, () => {
        this.refresh().catch((err: unknown) => logger.warn({ err }, 'cannot look for new queues'));
      }),
    ];
  }

  #stopTimers(): void {
    if (this.#readers.size > 0 || this.#jobReaders.size > 0) return;
    for (const stop of this.#timers) stop();
    this.#timers = [];
  }

  #beat(): void {
    const id = encodePositions(this.positions);
    for (const reader of [...this.#readers]) reader.beat(id);
    for (const readers of [...this.#jobReaders.values()]) {
      for (const reader of [...readers]) reader.beat();
    }
  }
}
