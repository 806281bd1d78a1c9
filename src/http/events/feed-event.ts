/** An event of one queue on its way to many readers: written down once, whoever and how many read it. */
import type { ServiceEvent } from '../../core/http/events.ts';
import type { ModelId } from '../../core/job/job.ts';
import type { StreamEvent } from '../../queue/events/event-history.ts';
import { serviceEventType, toServiceEvent } from '../../queue/events/service-events.ts';

export class FeedEvent {
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

  /** Undefined for what is of no interest outside of the queue. */
  static of(model: ModelId, raw: StreamEvent): FeedEvent | undefined {
    const type = serviceEventType(raw.name);
    return type === undefined ? undefined : new FeedEvent(model, type, raw);
  }

  /** Of events of jobs. */
  get jobId(): string | undefined {
    const { jobId } = this.raw.fields;
    return this.type.startsWith('job.') ? jobId : undefined;
  }

  /** Undefined for one that is damaged or of another version. */
  get event(): ServiceEvent | undefined {
    this.#event ??= toServiceEvent(this.model, this.raw);
    return this.#event;
  }

  /** The event under an id, for the wire. Empty for one that cannot be read. */
  frame(id: string): string {
    this.#body ??= this.event === undefined ? '' : eventBody(this.event);
    return this.#body === '' ? '' : `id: ${id}\n${this.#body}`;
  }
}

/** An event that only its reader gets. */
export function eventFrame(id: string, event: ServiceEvent): string {
  return `id: ${id}\n${eventBody(event)}`;
}

/** JSON has no line breaks of its own. */
function eventBody(event: ServiceEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
