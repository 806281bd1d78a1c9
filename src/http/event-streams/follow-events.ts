/** The event stream of many queues: brings a client from where it was to the present, then subscribes it to new events. */
import {
  decodePositions,
  encodePositions,
  isAfter,
  STREAM_START,
  type StreamId,
} from '../../core/http/event-position.ts';
import type { ModelId } from '../../core/job/job.ts';
import {
  isPositionKept,
  readEventPage,
  type StreamEvent,
} from '../../queue/events/event-history.ts';
import { queueNameOf } from '../../queue/redis/queue-names.ts';
import { BroadcastEvent, EventChunk, encodeEvent } from '../events/broadcast-event.ts';
import type { EventSubscriber } from '../events/event-broadcaster.ts';
import type { Services } from '../services.ts';
import { RETRY_HINT, type SseResponse } from './sse-response.ts';

export interface FollowOptions {
  readonly client: SseResponse;
  readonly reader: EventSubscriber & { settled(): Promise<void> };
  /** The id of the last event that the client got. */
  readonly lastEventId: string | undefined;
}

/** How many events are read at once for a client that comes back. */
const PAGE = 500;

/**
 * Resolves when the client has gone or the server ends.
 * @throws {WavepoolError} REDIS_UNAVAILABLE before the response has begun
 */
export async function followEvents(services: Services, options: FollowOptions): Promise<void> {
  await services.events.followQueues();
  await new EventFollower(services, options).run();
}

class EventFollower {
  readonly #services: Services;
  readonly #options: FollowOptions;
  /** Where the client is in each queue. A queue that it has never got events of begins for it with the first event. */
  readonly #positions: Map<ModelId, StreamId>;
  readonly #lost: ModelId[] = [];

  constructor(services: Services, options: FollowOptions) {
    this.#services = services;
    this.#options = options;
    this.#positions = services.events.positions;
    if (options.lastEventId === undefined) return;
    const last = decodePositions(options.lastEventId);
    if (last === undefined) this.#lost.push(...this.#wanted());
    else
      for (const model of this.#wanted())
        this.#positions.set(model, last.get(model) ?? STREAM_START);
  }

  async run(): Promise<void> {
    const { client, reader } = this.#options;
    const { events: broadcaster } = this.#services;
    await this.#waitForPositions();
    client.open();
    client.write(`${RETRY_HINT}id: ${this.#id()}\n\n`);
    this.#sendLost();
    await this.#catchUp();
    if (client.ended.aborted) return;
    // No event can come between reading memory and subscribing: both happen in one turn.
    this.#send(broadcaster.inMemoryAfter(this.#positions));
    const unsubscribe = broadcaster.subscribe(reader);
    await client.whenEnded();
    unsubscribe();
  }

  #wanted(): ModelId[] {
    const { reader } = this.#options;
    return this.#services.events.models.filter((model) => reader.wantsModel(model));
  }

  #id(): string {
    return encodePositions(this.#positions);
  }

  #position(model: ModelId): StreamId {
    return this.#positions.get(model) ?? STREAM_START;
  }

  /**
   * The client may name positions that this server has not reached: another server was a moment ahead, for which this waits,
   * or Redis has lost them.
   */
  async #waitForPositions(): Promise<void> {
    const { events: broadcaster, queues } = this.#services;
    const { client } = this.#options;
    for (const model of this.#wanted()) {
      const isAhead = (): boolean =>
        isAfter(this.#position(model), broadcaster.positions.get(model) ?? STREAM_START);
      if (!isAhead()) continue;
      if (await isPositionKept(queues.connection, queueNameOf(model), this.#position(model))) {
        while (isAhead() && !client.ended.aborted) await broadcaster.nextEvents(client.ended);
      } else this.#lose(model);
    }
  }

  async #catchUp(): Promise<void> {
    const { client, reader } = this.#options;
    while (!client.ended.aborted) {
      const missing = this.#firstMissing();
      if (missing === undefined) return;
      await this.#readPage(missing);
      this.#sendLost();
      await reader.settled();
    }
  }

  #firstMissing(): { model: ModelId; upTo: StreamId } | undefined {
    for (const model of this.#wanted()) {
      const upTo = this.#services.events.missingUpTo(model, this.#position(model));
      if (upTo !== undefined) return { model, upTo };
    }
    return undefined;
  }

  async #readPage({ model, upTo }: { model: ModelId; upTo: StreamId }): Promise<void> {
    const { connection } = this.#services.queues;
    const range = { after: this.#position(model), upTo, count: PAGE };
    const { events, complete } = await readEventPage(connection, queueNameOf(model), range);
    if (!complete) return this.#lose(model);
    this.#send(events.flatMap((raw) => this.#toBroadcast(model, raw)));
    const reached = events.length < PAGE ? upTo : events.at(-1)?.id;
    this.#positions.set(model, reached ?? upTo);
  }

  #toBroadcast(model: ModelId, raw: StreamEvent): BroadcastEvent[] {
    const event = BroadcastEvent.of(model, raw);
    return event === undefined ? [] : [event];
  }

  /** The ids are this client's own: it gets queue by queue what others got in the order of time. */
  #send(events: readonly BroadcastEvent[]): void {
    const identified = events.map((event) => {
      this.#positions.set(event.model, event.raw.id);
      return { id: this.#id(), event };
    });
    this.#options.reader.onEvents(new EventChunk(identified));
  }

  #lose(model: ModelId): void {
    this.#lost.push(model);
    this.#positions.set(model, this.#services.events.positions.get(model) ?? STREAM_START);
  }

  #sendLost(): void {
    const models = this.#lost.splice(0);
    if (models.length === 0) return;
    this.#options.client.write(encodeEvent(this.#id(), { type: 'stream.reset', models }));
  }
}
