/** The story of one batch for one client, from a snapshot or from where it was, until all its items have ended. */
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
import { isPositionKept, readEventPage } from '../../queue/events/event-history.ts';
import { readLastEventId } from '../../queue/events/job-ends.ts';
import { queueNameOf } from '../../queue/redis/queue-names.ts';
import type { EventBatch } from '../events/event-batch.ts';
import type { LiveReader } from '../events/event-hub.ts';
import { eventFrame, FeedEvent } from '../events/feed-event.ts';
import { batchResource } from '../resources/batch-resource.ts';
import type { Services } from '../services.ts';
import { HEARTBEAT, RETRY_HINT, type SseResponse } from './sse-response.ts';

const PAGE = 1_000;
/** Items may end by the hundred in a second: counts are told no more often than this. */
export const PROGRESS_MS = 1_000;

/**
 * Resolves when the stream has ended.
 * @returns false, having written nothing, when the client knows of the batch's end already
 * @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE before the response has begun
 */
export async function followBatch(
  services: Services,
  id: string,
  { client, lastEventId }: { client: SseResponse; lastEventId: string | undefined },
): Promise<boolean> {
  const { connection } = services.queues;
  const { model } = await services.batches.get(id);
  await services.events.refresh();
  // In this order: what happens between the two is told after the snapshot, and twice is better than never.
  const queue = queueNameOf(model);
  const now = await readLastEventId(connection, queue);
  const view = await services.batches.get(id);
  const told = lastEventId === undefined ? undefined : decodeJobPosition(lastEventId);
  if (told?.endedAt !== undefined && told.endedAt === endOf(view)) return false;
  const resumes = told !== undefined && (await isPositionKept(connection, queue, told.event));
  const follower = new BatchFollower(services, view, client, resumes ? told.event : now);
  client.open();
  client.write(`${RETRY_HINT}\n`);
  if (!resumes) follower.tellSnapshot();
  await follower.run();
  return true;
}

/** No work is left. When it finished is written down a moment later, by a worker if there is one. */
function isOver({ state, counts }: BatchView): boolean {
  return state === 'completed' || (state === 'cancelled' && counts.waiting + counts.running === 0);
}

/** Milliseconds since 1970, or 0 while nobody has written it down; undefined for a batch with work left. */
function endOf(view: BatchView): number | undefined {
  return view.finishedAt ?? (isOver(view) ? 0 : undefined);
}

class BatchFollower implements LiveReader {
  readonly #services: Services;
  readonly #client: SseResponse;
  readonly #view: BatchView;
  #position: StreamId;
  #told: BatchCounts | undefined;
  /** Items began or ended since the counts were read. */
  #isBehind = false;
  /** It was over when it was last read, and may say soon when it finished. */
  #isEnding = false;
  #catchingUp = true;
  #looking: Promise<void> = Promise.resolve();

  constructor(services: Services, view: BatchView, client: SseResponse, position: StreamId) {
    this.#services = services;
    this.#view = view;
    this.#client = client;
    this.#position = position;
  }

  tellSnapshot(): void {
    this.#told = this.#view.counts;
    this.#write({ type: 'batch.snapshot', batch: batchResource(this.#view) });
  }

  async run(): Promise<void> {
    const { events: hub, every } = this.#services;
    await this.#catchUp();
    // Nothing happens between memory and joining.
    for (const event of hub.after(new Map([[this.#view.model, this.#position]]))) this.#hear(event);
    const leave = hub.join(this);
    this.#catchingUp = false;
    const stop = every(PROGRESS_MS, () => {
      if (this.#isBehind) this.#lookSoon();
    });
    try {
      this.#lookSoon();
      await this.#client.whenEnded();
    } finally {
      stop();
      leave();
    }
  }

  take({ events }: EventBatch): void {
    for (const { event } of events) this.#hear(event);
  }

  beat(): void {
    this.#client.write(HEARTBEAT);
  }

  wantsModel(model: string): boolean {
    return model === this.#view.model;
  }

  cutOff(): void {
    this.#client.cutOff();
  }

  async #catchUp(): Promise<void> {
    const { events: hub, queues } = this.#services;
    const { model } = this.#view;
    while (!this.#client.ended.aborted) {
      const after = this.#position;
      const upTo = hub.behind(model, after);
      if (upTo === undefined) return;
      const range = { after, upTo, count: PAGE };
      const { events, complete } = await readEventPage(
        queues.connection,
        queueNameOf(model),
        range,
      );
      // It comes back, and gets a snapshot.
      if (!complete) return this.#client.cutOff();
      for (const raw of events) {
        const event = FeedEvent.of(model, raw);
        if (event !== undefined) this.#hear(event);
      }
      this.#position = events.length < PAGE ? upTo : (events.at(-1)?.id ?? upTo);
      await this.#client.drained();
    }
  }

  #hear(event: FeedEvent): void {
    const { model, id, jobPrefix } = this.#view;
    if (event.model !== model || !isAfter(event.raw.id, this.#position)) return;
    if (event.jobId?.startsWith(jobPrefix) === true) this.#isBehind = true;
    if (!event.type.startsWith('batch.')) return;
    const { event: change } = event;
    if (change === undefined || !('batchId' in change) || change.batchId !== id) return;
    this.#position = event.raw.id;
    // The end is told as it stands then: the batch may have been retried since.
    if (change.type !== BATCH_END_EVENT) this.#tell(change);
    const { waiting, running } = change.counts;
    if (waiting + running === 0) this.#lookSoon();
  }

  #lookSoon(): void {
    if (this.#catchingUp) return;
    this.#isBehind = false;
    // Never rejects.
    this.#looking = this.#looking.then(() => this.#look());
  }

  async #look(): Promise<void> {
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
      this.#isBehind ||= this.#isEnding;
      if (!isDeepStrictEqual(view.counts, this.#told)) {
        this.#tell({ type: 'batch.progress', at, model, ...batchStanding(view) });
      }
    } catch {
      // It comes back and reads on.
      this.#client.cutOff();
    }
  }

  #tell(event: ServiceEvent & BatchStanding): void {
    this.#told = event.counts;
    this.#write(event);
  }

  #write(event: ServiceEvent, endedAt?: number): void {
    const position = { event: this.#position, segment: STREAM_START, endedAt };
    this.#client.write(eventFrame(encodeJobPosition(position), event));
  }
}
