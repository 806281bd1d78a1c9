/** A client that reads the events of many queues. */
import type { JobTenants } from '../../queue/tenants/job-tenants.ts';
import type { EventBatch, IdentifiedEvent } from '../events/event-batch.ts';
import type { EventFilter } from '../events/event-filter.ts';
import type { LiveReader } from '../events/event-hub.ts';
import type { FeedEvent } from '../events/feed-event.ts';
import type { SseResponse } from './sse-response.ts';

/** Sends what the filter lets through, as it comes. */
export class EventReader implements LiveReader {
  readonly #client: SseResponse;
  readonly #filter: EventFilter;

  constructor(client: SseResponse, filter: EventFilter) {
    this.#client = client;
    this.#filter = filter;
  }

  take(batch: EventBatch): void {
    this.#client.write(batch.encode(this.#filter));
  }

  /** An id without an event moves a client on that no event was for. */
  beat(id: string): void {
    this.#client.write(`: heartbeat\nid: ${id}\n\n`);
  }

  wantsModel(model: string): boolean {
    return this.#filter.wantsModel(model);
  }

  cutOff(): void {
    this.#client.cutOff();
  }

  /** Resolves when everything that was taken is on its way. */
  async settled(): Promise<void> {
    await this.#client.drained();
  }
}

export interface TenantReaderOptions {
  readonly client: SseResponse;
  readonly filter: EventFilter;
  readonly tenant: string;
  readonly tenants: JobTenants;
}

/** Events that wait to be looked up. */
const MOST_WAITING = 20_000;

/** Sends the events of one tenant's jobs and batches; the others' are found out first. */
export class TenantReader implements LiveReader {
  readonly #options: TenantReaderOptions;
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(options: TenantReaderOptions) {
    this.#options = options;
  }

  take({ events }: EventBatch): void {
    const { client, filter } = this.#options;
    const wanted = events.filter(({ event }) => filter.wants(event));
    this.#waiting += wanted.length;
    if (this.#waiting > MOST_WAITING) {
      client.cutOff();
      return;
    }
    this.#enqueue(async () => {
      const own = await this.#ownOf(wanted);
      this.#waiting -= wanted.length;
      client.write(own.map(({ id, event }) => event.frame(id)).join(''));
    });
  }

  /** After what still waits: its id says that nothing does. */
  beat(id: string): void {
    this.#enqueue(() => this.#options.client.write(`: heartbeat\nid: ${id}\n\n`));
  }

  wantsModel(model: string): boolean {
    return this.#options.filter.wantsModel(model);
  }

  cutOff(): void {
    this.#options.client.cutOff();
  }

  async settled(): Promise<void> {
    await this.#last;
    await this.#options.client.drained();
  }

  #enqueue(task: () => Promise<void> | void): void {
    // Whoever cannot be served comes back.
    this.#last = this.#last.then(task).catch(() => this.#options.client.cutOff());
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

/** Events of batches say whose they are, and others may. */
function tenantOf({ event }: FeedEvent): unknown {
  if (event === undefined) return undefined;
  if ('tenant' in event) return event.tenant;
  if (!('data' in event)) return undefined;
  const { tenant } = event.data;
  return tenant;
}
