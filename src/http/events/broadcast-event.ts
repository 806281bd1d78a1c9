/** An event on its way from a queue to the clients of the server. It is parsed and encoded once, however many get it. */
import type { EventsQuery, ServiceEvent } from '../../core/http/events.ts';
import type { ModelId } from '../../core/job/job.ts';
import type { StreamEvent } from '../../queue/events/event-history.ts';
import { serviceEventType, toServiceEvent } from '../../queue/events/service-events.ts';

export class BroadcastEvent {
  readonly model: ModelId;
  readonly type: ServiceEvent['type'];
  readonly raw: StreamEvent;
  #event: ServiceEvent | undefined;
  #body: string | undefined;

  private constructor(model: ModelId, type: ServiceEvent['type'], raw: StreamEvent) {
    this.model = model;
    this.type = type;
    this.raw = raw;
  }

  /** Undefined for an event that clients never get. */
  static of(model: ModelId, raw: StreamEvent): BroadcastEvent | undefined {
    const type = serviceEventType(raw.name);
    return type === undefined ? undefined : new BroadcastEvent(model, type, raw);
  }

  /** The job that the event is about; undefined for events of batches. */
  get jobId(): string | undefined {
    const { jobId } = this.raw.fields;
    return this.type.startsWith('job.') ? jobId : undefined;
  }

  /** The parsed event; undefined when it is damaged or of another version. */
  get event(): ServiceEvent | undefined {
    this.#event ??= toServiceEvent(this.model, this.raw);
    return this.#event;
  }

  /** The event as a server-sent event with this id; empty when it cannot be parsed. */
  encode(id: string): string {
    this.#body ??= this.event === undefined ? '' : encodeBody(this.event);
    return this.#body === '' ? '' : `id: ${id}\n${this.#body}`;
  }
}

/** A server-sent event that only one client gets. */
export function encodeEvent(id: string, event: ServiceEvent): string {
  return `id: ${id}\n${encodeBody(event)}`;
}

/** The JSON has no line breaks, so one data line is enough. */
function encodeBody(event: ServiceEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Which events a client asked for. */
export class EventFilter {
  /** Filters with equal keys let the same events through. */
  readonly key: string;
  readonly #models: ReadonlySet<ModelId> | undefined;
  readonly #types: ReadonlySet<string> | undefined;

  constructor({ model, types }: Pick<EventsQuery, 'model' | 'types'>) {
    this.#models = model && new Set(model);
    this.#types = types && new Set(types);
    this.key = JSON.stringify([model?.toSorted(), types?.toSorted()]);
  }

  wantsModel(model: ModelId): boolean {
    return this.#models?.has(model) ?? true;
  }

  wants({ model, type }: BroadcastEvent): boolean {
    if (!this.wantsModel(model)) return false;
    return this.#types === undefined || this.#types.has(type) || this.#types.has(kindOf(type));
  }
}

/** The kind of `job.failed` is `job.*`. */
function kindOf(type: string): string {
  return `${type.slice(0, type.indexOf('.'))}.*`;
}

export interface IdentifiedEvent {
  readonly id: string;
  readonly event: BroadcastEvent;
}

/** Events that are sent together. All clients get them with the same ids. */
export class EventChunk {
  readonly events: readonly IdentifiedEvent[];
  readonly #encoded = new Map<string, Buffer>();

  constructor(events: readonly IdentifiedEvent[]) {
    this.events = events;
  }

  /** The events that the filter lets through, as bytes to send. Clients with equal filters share them. */
  encode(filter: EventFilter): Buffer {
    const known = this.#encoded.get(filter.key);
    if (known !== undefined) return known;
    const wanted = this.events.filter(({ event }) => filter.wants(event));
    const encoded = Buffer.from(wanted.map(({ id, event }) => event.encode(id)).join(''));
    this.#encoded.set(filter.key, encoded);
    return encoded;
  }
}
