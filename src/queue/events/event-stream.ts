import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { StreamId } from '../../core/http/event-position.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../redis/connection.ts';
import { bullKey } from '../redis/queue-names.ts';
import { isPositionKept, type StreamEvent, toStreamEvent } from './event-history.ts';
import { readLastEventId } from './job-ends.ts';

export interface EventStreamOptions {
  readonly address: RedisAddress;
  readonly queue: string;
  /** In order; some at a time. */
  readonly onEvents: (events: readonly StreamEvent[]) => void;
  /** Events before the next ones were missed: the connection was away for longer than they are kept. */
  readonly onGap: () => void;
  readonly onError: (error: unknown) => void;
}

const BLOCK_MS = 10_000;
/** The server answers every `BLOCK_MS`: a connection that is silent for longer is dead and is opened anew. */
const SILENCE_MS = 2 * BLOCK_MS;
const BATCH = 1_000;
const PAUSE_AFTER_ERROR_MS = 500;

/**
 * Reads the event stream that BullMQ writes for a queue, from the time of `open` on, across reconnections. BullMQ's own
 * `QueueEvents` cannot be closed while Redis is away, and pauses five seconds after each interruption.
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  readonly #connection: Redis;
  readonly #closed = new AbortController();
  #position: StreamId;
  #wasAway = false;

  private constructor(options: EventStreamOptions, connection: Redis, position: StreamId) {
    this.#options = options;
    this.#connection = connection;
    this.#position = position;
    connection.on('close', () => {
      this.#wasAway = true;
    });
    // Ends with `close`; errors go to `onError`.
    void this.#readAll();
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: EventStreamOptions): Promise<EventStream> {
    const { address, queue } = options;
    const connection = openConnection(address, {
      role: 'patient',
      name: 'events',
      silenceMs: SILENCE_MS,
    });
    await connect(connection, address);
    return new EventStream(options, connection, await readLastEventId(connection, queue));
  }

  /** Of the last event that was told. */
  get position(): StreamId {
    return this.#position;
  }

  /** Idempotent. */
  close(): void {
    this.#closed.abort();
    closeConnection(this.#connection);
  }

  async #readAll(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      try {
        await this.#readSome();
      } catch (error) {
        if (signal.aborted) return;
        this.#options.onError(error);
        await sleep(PAUSE_AFTER_ERROR_MS, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  async #readSome(): Promise<void> {
    const { queue, onEvents, onGap } = this.#options;
    const key = bullKey(this.#connection, queue, 'events');
    const reply = await this.#connection.xread(
      ...(['COUNT', BATCH, 'BLOCK', BLOCK_MS, 'STREAMS', key, this.#position] as const),
    );
    const events = (reply?.[0]?.[1] ?? []).map(toStreamEvent);
    const missedSome = events.length > 0 && (await this.#missedSome());
    const last = events.at(-1);
    if (last === undefined || this.#closed.signal.aborted) return;
    this.#position = last.id;
    if (missedSome) onGap();
    onEvents(events);
  }

  /** What was there at this time is there in what was read before. */
  async #missedSome(): Promise<boolean> {
    if (!this.#wasAway) return false;
    const isKept = await isPositionKept(this.#connection, this.#options.queue, this.#position);
    this.#wasAway = false;
    return !isKept;
  }
}
