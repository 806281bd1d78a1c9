/** Events that were read together, with the ids under which all readers get them. */
import type { EventFilter } from './event-filter.ts';
import type { FeedEvent } from './feed-event.ts';

export interface IdentifiedEvent {
  readonly id: string;
  readonly event: FeedEvent;
}

export class EventBatch {
  readonly events: readonly IdentifiedEvent[];
  readonly #encoded = new Map<string, Buffer>();

  constructor(events: readonly IdentifiedEvent[]) {
    this.events = events;
  }

  /** For the wire; one for all readers with equal filters. Empty when there is nothing for them. */
  encode(filter: EventFilter): Buffer {
    const known = this.#encoded.get(filter.key);
    if (known !== undefined) return known;
    const wanted = this.events.filter(({ event }) => filter.wants(event));
    const encoded = Buffer.from(wanted.map(({ id, event }) => event.frame(id)).join(''));
    this.#encoded.set(filter.key, encoded);
    return encoded;
  }
}
