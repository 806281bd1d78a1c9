/** The two kinds of subscribers behind `GET /v1/events`: one for all events, one for the events of a tenant. */
import type { JobTenants } from '../../queue/tenants/job-tenants.ts';
import type {
  BroadcastEvent,
  EventChunk,
  EventFilter,
  IdentifiedEvent,
} from '../events/broadcast-event.ts';
import type { EventSubscriber } from '../events/event-broadcaster.ts';
import type { SseResponse } from './sse-response.ts';

/** Sends the events that the filter lets through. */
export class EventReader implements EventSubscriber {
  readonly #client: SseResponse;
  readonly #filter: EventFilter;

  constructor(client: SseResponse, filter: EventFilter) {
    this.#client = client;
    this.#filter = filter;
  }

  onEvents(chunk: EventChunk): void {
    this.#client.write(chunk.encode(this.#filter));
  }

  onHeartbeat(id: string): void {
    this.#client.write(heartbeatWithId(id));
  }

  wantsModel(model: string): boolean {
    return this.#filter.wantsModel(model);
  }

  onGap(): void {
    this.#client.disconnect();
  }

  /** Resolves when the client has taken enough of what was sent. */
  async settled(): Promise<void> {
    await this.#client.drained();
  }
}

/** The id moves a client on for which there was no event. */
function heartbeatWithId(id: string): string {
  return `: heartbeat\nid: ${id}\n\n`;
}

export interface TenantReaderOptions {
  readonly client: SseResponse;
  readonly filter: EventFilter;
  readonly tenant: string;
  readonly tenants: JobTenants;
}

/** A client for which more events than this wait to be looked up is disconnected. */
const MOST_WAITING = 20_000;

/** Sends the events of one tenant's jobs and batches. The tenants of the jobs are looked up first. */
export class TenantReader implements EventSubscriber {
  readonly #options: TenantReaderOptions;
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(options: TenantReaderOptions) {
    this.#options = options;
  }

  onEvents({ events }: EventChunk): void {
    const { client, filter } = this.#options;
    const wanted = events.filter(({ event }) => filter.wants(event));
    this.#waiting += wanted.length;
    if (this.#waiting > MOST_WAITING) {
      client.disconnect();
      return;
    }
    this.#enqueue(async () => {
      const own = await this.#ownOf(wanted);
      this.#waiting -= wanted.length;
      client.write(own.map(({ id, event }) => event.encode(id)).join(''));
    });
  }

  /** The heartbeat waits behind earlier events, because its id says that the client has them. */
  onHeartbeat(id: string): void {
    this.#enqueue(() => this.#options.client.write(heartbeatWithId(id)));
  }

  wantsModel(model: string): boolean {
    return this.#options.filter.wantsModel(model);
  }

  onGap(): void {
    this.#options.client.disconnect();
  }

  async settled(): Promise<void> {
    await this.#last;
    await this.#options.client.drained();
  }

  #enqueue(task: () => Promise<void> | void): void {
    // When a lookup fails, the client is disconnected; it comes back and reads on.
    this.#last = this.#last.then(task).catch(() => this.#options.client.disconnect());
  }

  async #ownOf(events: readonly IdentifiedEvent[]): Promise<IdentifiedEvent[]> {
    const { tenants, tenant } = this.#options;
    const jobs = events.flatMap(({ event: { model, jobId } }) =>
      jobId === undefined ? [] : [{ model, jobId }],
    );
    await tenants.lookUp(jobs);
    return events.filter(({ event }) => {
      const { model, jobId } = event;
      return jobId === undefined
        ? tenantOf(event) === tenant
        : tenants.tenantOf({ model, jobId }) === tenant;
    });
  }
}

/** The tenant that the event itself names. Events of batches always name one. */
function tenantOf({ event }: BroadcastEvent): unknown {
  if (event === undefined) return undefined;
  if ('tenant' in event) return event.tenant;
  if (!('data' in event)) return undefined;
  const { tenant } = event.data;
  return tenant;
}
