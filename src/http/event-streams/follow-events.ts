/** Brings a reader of many queues from where it was to now, and lets it join those who are told as things happen. */
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
import { EventBatch } from '../events/event-batch.ts';
import type { LiveReader } from '../events/event-hub.ts';
import { eventFrame, FeedEvent } from '../events/feed-event.ts';
import type { Services } from '../services.ts';
import { RETRY_HINT, type SseResponse } from './sse-response.ts';

export interface FollowOptions {
  readonly client: SseResponse;
  readonly reader: LiveReader & { settled(): Promise<void> };
  /** The last event that the reader was told. */
  readonly lastEventId: string | undefined;
}

/** Events that are read at once for a reader who comes back. */
const PAGE = 500;

/**
 * Resolves when the client has gone or the server ends.
 * @throws {WavepoolError} REDIS_UNAVAILABLE before the response has begun
 */
export async function followEvents(services: Services, options: FollowOptions): Promise<void> {
  await services.events.refresh();
  await new EventFollower(services, options).run();
}

class EventFollower {
  readonly #services: Services;
  readonly #options: FollowOptions;
  /** Of this reader. A model that it never heard of is new to it from the beginning. */
  readonly #positions: Map<ModelId, StreamId>;
  readonly #lost: ModelId[] = [];

  constructor(services: Services, options: FollowOptions) {
    this.#services = services;
    this.#options = options;
    const { events: hub } = services;
    this.#positions = hub.positions;
    if (options.lastEventId === undefined) return;
    const told = decodePositions(options.lastEventId);
    if (told === undefined) this.#lost.push(...this.#wanted());
    else
      for (const model of this.#wanted())
        this.#positions.set(model, told.get(model) ?? STREAM_START);
  }

  async run(): Promise<void> {
    const { client, reader } = this.#options;
    const { events: hub } = this.#services;
    await this.#resetVanished();
    client.open();
    client.write(`${RETRY_HINT}id: ${this.#id()}\n\n`);
    this.#tellLost();
    await this.#catchUp();
    if (client.ended.aborted) return;
    // Nothing happens between these two.
    this.#take(hub.after(this.#positions));
    const leave = hub.join(reader);
    await client.whenEnded();
    leave();
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

  /** Places that this server has not got to: it is a moment behind another one, or Redis has lost them. */
  async #resetVanished(): Promise<void> {
    const { events: hub, queues } = this.#services;
    const { client } = this.#options;
    for (const model of this.#wanted()) {
      const isAhead = (): boolean =>
        isAfter(this.#position(model), hub.positions.get(model) ?? STREAM_START);
      if (!isAhead()) continue;
      if (await isPositionKept(queues.connection, queueNameOf(model), this.#position(model))) {
        while (isAhead() && !client.ended.aborted) await hub.moved(client.ended);
      } else this.#lose(model);
    }
  }

  async #catchUp(): Promise<void> {
    const { client, reader } = this.#options;
    while (!client.ended.aborted) {
      const behind = this.#firstBehind();
      if (behind === undefined) return;
      await this.#readPage(behind);
      this.#tellLost();
      await reader.settled();
    }
  }

  #firstBehind(): { model: ModelId; upTo: StreamId } | undefined {
    for (const model of this.#wanted()) {
      const upTo = this.#services.events.behind(model, this.#position(model));
      if (upTo !== undefined) return { model, upTo };
    }
    return undefined;
  }

  async #readPage({ model, upTo }: { model: ModelId; upTo: StreamId }): Promise<void> {
    const { connection } = this.#services.queues;
    const range = { after: this.#position(model), upTo, count: PAGE };
    const { events, complete } = await readEventPage(connection, queueNameOf(model), range);
    if (!complete) return this.#lose(model);
    this.#take(events.flatMap((raw) => this.#readable(model, raw)));
    const reached = events.length < PAGE ? upTo : events.at(-1)?.id;
    this.#positions.set(model, reached ?? upTo);
  }

  #readable(model: ModelId, raw: StreamEvent): FeedEvent[] {
    const event = FeedEvent.of(model, raw);
    return event === undefined ? [] : [event];
  }

  /** Under ids of this reader: it takes queue by queue what the others took mixed. */
  #take(events: readonly FeedEvent[]): void {
    const batch = events.map((event) => {
      this.#positions.set(event.model, event.raw.id);
      return { id: this.#id(), event };
    });
    this.#options.reader.take(new EventBatch(batch));
  }

  #lose(model: ModelId): void {
    const { events: hub } = this.#services;
    this.#lost.push(model);
    this.#positions.set(model, hub.positions.get(model) ?? STREAM_START);
  }

  #tellLost(): void {
    const models = this.#lost.splice(0);
    if (models.length === 0) return;
    this.#options.client.write(eventFrame(this.#id(), { type: 'stream.reset', models }));
  }
}
