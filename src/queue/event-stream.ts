import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { closeConnection, connect, openConnection, type RedisAddress } from './connection.ts';
import { readLastEventId } from './job-ends.ts';
import { bullKey } from './queue-names.ts';

export interface StreamEvent {
  /** `milliseconds-number`, growing. */
  readonly id: string;
  readonly name: string;
  readonly fields: Readonly<Record<string, string | undefined>>;
}

export interface EventStreamOptions {
  readonly address: RedisAddress;
  readonly queue: string;
  readonly onEvent: (event: StreamEvent) => void;
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
  #position: string;

  private constructor(options: EventStreamOptions, connection: Redis, position: string) {
    this.#options = options;
    this.#connection = connection;
    this.#position = position;
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

  /** Id of the last event that was told. */
  get position(): string {
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
    const key = bullKey(this.#options.queue, 'events');
    const reply = await this.#connection.xread(
      ...(['COUNT', BATCH, 'BLOCK', BLOCK_MS, 'STREAMS', key, this.#position] as const),
    );
    for (const [id, pairs] of reply?.[0]?.[1] ?? []) {
      if (this.#closed.signal.aborted) return;
      this.#position = id;
      const fields: Record<string, string | undefined> = {};
      for (let index = 0; index < pairs.length; index += 2) {
        fields[String(pairs[index])] = pairs[index + 1];
      }
      const { event: name = '' } = fields;
      this.#options.onEvent({ id, name, fields });
    }
  }
}
