/** The event stream of one batch: from a snapshot, or from where the client was, until all its items have ended. */
import { isDeepStrictEqual } from 'node:util';
import {
  decodeJobPosition,
  encodeJobPosition,
  isAfter,
  STREAM_START,
  type StreamId,
} from '../../core/http/event-position.ts';
import { BATCH_END_EVENT, type ServiceEvent } from '../../core/http/events.ts';
import {
  type BatchCounts,
  type BatchStanding,
  type BatchView,
  batchStanding,
} from '../../core/job/batch.ts';
import { isPositionKept } from '../../queue/events/event-history.ts';
import { readLastEventId } from '../../queue/events/job-ends.ts';
import { queueNameOf } from '../../queue/redis/queue-names.ts';
import { type BroadcastEvent, type EventChunk, encodeEvent } from '../events/broadcast-event.ts';
import type { EventSubscriber } from '../events/event-broadcaster.ts';
import { batchResource } from '../resources/batch-resource.ts';
import type { Services } from '../services.ts';
import { readMissedEvents } from './missed-events.ts';
import { HEARTBEAT, RETRY_HINT, type SseResponse } from './sse-response.ts';

/** Hundreds of items may end in a second: counts are sent no more often than this. */
export const PROGRESS_MS = 1_000;

/**
 * Resolves when the stream has ended.
 * @returns false, having written nothing, when the client has been sent the batch's end before
 * @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE before the response has begun
 */
export async function followBatch(
  services: Services,
  id: string,
  { client, lastEventId }: { client: SseResponse; lastEventId: string | undefined },
): Promise<boolean> {
  const { connection } = services.queues;
  const { model } = await services.batches.get(id);
  await services.events.followQueues();
  // The position is read first: what happens before the snapshot is then sent a second time, and not lost.
  const queue = queueNameOf(model);
  const now = await readLastEventId(connection, queue);
  const view = await services.batches.get(id);
  const last = lastEventId === undefined ? undefined : decodeJobPosition(lastEventId);
  if (last?.endedAt !== undefined && last.endedAt === endOf(view)) return false;
  const resumes = last !== undefined && (await isPositionKept(connection, queue, last.event));
  const follower = new BatchFollower(services, view, client, resumes ? last.event : now);
  client.open();
  client.write(`${RETRY_HINT}\n`);
  if (!resumes) follower.sendSnapshot();
  await follower.run();
  return true;
}

/** Whether no work is left. The time of the end is stored a moment later, by a worker if there is one. */
function isOver({ state, counts }: BatchView): boolean {
  return state === 'completed' || (state === 'cancelled' && counts.waiting + counts.running === 0);
}

/** Milliseconds since 1970, or 0 while that time is not stored yet; undefined for a batch with work left. */
function endOf(view: BatchView): number | undefined {
  return view.finishedAt ?? (isOver(view) ? 0 : undefined);
}

class BatchFollower implements EventSubscriber {
  readonly #services: Services;
  readonly #client: SseResponse;
  readonly #view: BatchView;
  #position: StreamId;
  #sentCounts: BatchCounts | undefined;
  /** Items began or ended since the counts were read. */
  #countsAreOld = false;
  /** The batch was over when it was last read; the time of its end may be stored soon. */
  #isEnding = false;
  #catchingUp = true;
  #reading: Promise<void> = Promise.resolve();

  constructor(services: Services, view: BatchView, client: SseResponse, position: StreamId) {
    this.#services = services;
    this.#view = view;
    this.#client = client;
    this.#position = position;
  }

  sendSnapshot(): void {
    this.#sentCounts = this.#view.counts;
    this.#write({ type: 'batch.snapshot', batch: batchResource(this.#view) });
  }

  async run(): Promise<void> {
    const { events: broadcaster, every } = this.#services;
    const { model } = this.#view;
    this.#position = await readMissedEvents({
      services: this.#services,
      client: this.#client,
      model,
      after: this.#position,
      onEvent: (event) => this.#handle(event),
    });
    // No event can come between reading memory and subscribing: both happen in one turn.
    for (const event of broadcaster.inMemoryAfter(new Map([[model, this.#position]])))
      this.#handle(event);
    const unsubscribe = broadcaster.subscribe(this);
    this.#catchingUp = false;
    const stop = every(PROGRESS_MS, () => {
      if (this.#countsAreOld) this.#readBatchNext();
    });
    try {
      this.#readBatchNext();
      await this.#client.whenEnded();
    } finally {
      stop();
      unsubscribe();
    }
  }

  onEvents({ events }: EventChunk): void {
    for (const { event } of events) this.#handle(event);
  }

  onHeartbeat(): void {
    this.#client.write(HEARTBEAT);
  }

  wantsModel(model: string): boolean {
    return model === this.#view.model;
  }

  onGap(): void {
    this.#client.disconnect();
  }

  #handle(event: BroadcastEvent): void {
    const { model, id, jobPrefix } = this.#view;
    if (event.model !== model || !isAfter(event.raw.id, this.#position)) return;
    if (event.jobId?.startsWith(jobPrefix) === true) this.#countsAreOld = true;
    if (!event.type.startsWith('batch.')) return;
    const { event: change } = event;
    if (change === undefined || !('batchId' in change) || change.batchId !== id) return;
    this.#position = event.raw.id;
    // The end is not sent from here, but by the next reading: the batch may have been retried since.
    if (change.type !== BATCH_END_EVENT) this.#send(change);
    const { waiting, running } = change.counts;
    if (waiting + running === 0) this.#readBatchNext();
  }

  /** Reads the batch once the reading under way, if any, has ended. */
  #readBatchNext(): void {
    if (this.#catchingUp) return;
    this.#countsAreOld = false;
    // It never rejects.
    this.#reading = this.#reading.then(() => this.#readBatch());
  }

  async #readBatch(): Promise<void> {
    const { batches, now } = this.#services;
    const { id, model } = this.#view;
    if (this.#client.ended.aborted) return;
    try {
      const view = await batches.get(id);
      const at = new Date(now()).toISOString();
      if (view.finishedAt !== undefined || (this.#isEnding && isOver(view))) {
        this.#write({ type: BATCH_END_EVENT, at, model, ...batchStanding(view) }, endOf(view));
        this.#client.end();
        return;
      }
      this.#isEnding = isOver(view);
      this.#countsAreOld ||= this.#isEnding;
      if (!isDeepStrictEqual(view.counts, this.#sentCounts)) {
        this.#send({ type: 'batch.progress', at, model, ...batchStanding(view) });
      }
    } catch {
      // The client comes back and reads on.
      this.#client.disconnect();
    }
  }

  #send(event: ServiceEvent & BatchStanding): void {
    this.#sentCounts = event.counts;
    this.#write(event);
  }

  #write(event: ServiceEvent, endedAt?: number): void {
    const position = { event: this.#position, segment: STREAM_START, endedAt };
    this.#client.write(encodeEvent(encodeJobPosition(position), event));
  }
}
