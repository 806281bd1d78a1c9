/** Events of the server as an async iterator that goes on where it was when a connection breaks. */
import { WavepoolError } from '../core/errors.ts';
import { backOff } from './retry-policy.ts';
import { type SseMessage, SseParser } from './sse-parser.ts';
import { type ApiRequest, type Transport, timeLimit } from './transport.ts';

export interface EventFeedOptions<Event> {
  readonly path: string;
  readonly query?: ApiRequest['query'];
  /** Undefined for a message that is not to be told. */
  readonly parse: (message: SseMessage) => Event | undefined;
  /** Whether nothing follows this event. @defaultValue never */
  readonly isLast?: ((event: Event) => boolean) | undefined;
  /** Begin after this event. */
  readonly lastEventId?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The server says something every few seconds: a connection that is silent for this long is dead. */
const SILENCE_MS = 60_000;
const RETRY_MS = 1_000;
/** A server that cannot be reached for this long is given up. */
const PATIENCE_MS = 300_000;

interface Connection {
  readonly response: Response;
  /** Ends it, whatever is under way. Idempotent. */
  close(): void;
}

/** Iterate it to follow the events; iterating it again goes on after the last one. */
export class EventFeed<Event> implements AsyncIterable<Event> {
  readonly #transport: Transport;
  readonly #options: EventFeedOptions<Event>;
  #lastEventId: string | undefined;
  #retryMs = RETRY_MS;
  /** Connections in a row on which nothing came. */
  #failures = 0;
  /** When the server was last heard. */
  #heardAt: number;

  constructor(transport: Transport, options: EventFeedOptions<Event>) {
    this.#transport = transport;
    this.#options = options;
    this.#lastEventId = options.lastEventId;
    this.#heardAt = transport.clock.now();
  }

  /** Of the last event that was told: where another feed can go on. */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /**
   * Ends after the last event, or when the caller leaves the loop: that closes the connection, too.
   * @throws {WavepoolError} the server's refusal; SERVER_UNREACHABLE after five minutes without a connection; the
   *   signal's reason when it aborts
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void> {
    const { parse, isLast = () => false, signal } = this.#options;
    for (;;) {
      const connection = await this.#connect();
      if (connection === undefined) return;
      try {
        for await (const message of this.#messages(connection)) {
          const event = parse(message);
          if (event === undefined) continue;
          yield event;
          if (isLast(event)) return;
        }
      } finally {
        connection.close();
      }
      signal?.throwIfAborted();
      await this.#pause(0);
    }
  }

  /** Undefined when the server says that no more will come. */
  async #connect(): Promise<Connection | undefined> {
    const { path, query, signal } = this.#options;
    for (;;) {
      signal?.throwIfAborted();
      const ending = new AbortController();
      const attempt = await this.#transport.open({
        method: 'GET',
        path,
        query,
        headers: {
          accept: 'text/event-stream',
          ...(this.#lastEventId ? { 'last-event-id': this.#lastEventId } : {}),
        },
        signal: signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal]),
      });
      if ('result' in attempt) {
        const { result: response } = attempt;
        const close = (): void => ending.abort();
        if (response.status !== 204) return { response, close };
        close();
        return undefined;
      }
      const { kind, error, retryAfterMs = 0 } = attempt.failure;
      const patient = this.#transport.clock.now() - this.#heardAt < PATIENCE_MS;
      if (kind === 'final' || !patient) throw error;
      await this.#pause(retryAfterMs);
    }
  }

  /** Ends when the connection does, whatever the reason: it is opened again. */
  async *#messages({ response, close }: Connection): AsyncGenerator<SseMessage> {
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
      throw new WavepoolError('INTERNAL', 'the server sent no events');
    }
    const parser = new SseParser(this.#lastEventId);
    const decoder = new TextDecoder();
    const reader = response.body?.getReader();
    for (;;) {
      const silence = timeLimit(SILENCE_MS, this.#transport.clock);
      silence.signal.addEventListener('abort', close);
      const read = await reader?.read().catch(() => undefined);
      silence.end();
      if (read?.value === undefined) return;
      this.#failures = 0;
      this.#heardAt = this.#transport.clock.now();
      for (const message of parser.push(decoder.decode(read.value, { stream: true }))) {
        this.#lastEventId = parser.lastEventId;
        yield message;
      }
      this.#lastEventId = parser.lastEventId;
      this.#retryMs = parser.retryMs ?? this.#retryMs;
    }
  }

  async #pause(atLeastMs: number): Promise<void> {
    const pauseMs = backOff(++this.#failures, this.#transport.random, this.#retryMs);
    await this.#transport.pause(Math.max(pauseMs, atLeastMs), this.#options.signal);
  }
}
