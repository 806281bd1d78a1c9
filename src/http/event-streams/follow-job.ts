/** The event stream of one job: from a snapshot, or from where the client was, until the job has ended. */
import {
  decodeJobPosition,
  encodeJobPosition,
  isAfter,
  type JobPosition,
  STREAM_START,
} from '../../core/http/event-position.ts';
import { JOB_END_EVENTS, type ServiceEvent } from '../../core/http/events.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import { isPositionKept } from '../../queue/events/event-history.ts';
import { readLastEventId } from '../../queue/events/job-ends.ts';
import type { WatchedSegment } from '../../queue/events/segment-feed.ts';
import { readSegments } from '../../queue/events/segment-stream.ts';
import { endEvent } from '../../queue/events/service-events.ts';
import type { JobView } from '../../queue/jobs/job-view.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import { type BroadcastEvent, encodeEvent } from '../events/broadcast-event.ts';
import type { JobSubscriber } from '../events/event-broadcaster.ts';
import { jobResource } from '../resources/job-resource.ts';
import type { Services } from '../services.ts';
import { readMissedEvents } from './missed-events.ts';
import { HEARTBEAT, RETRY_HINT, type SseResponse } from './sse-response.ts';

/**
 * Resolves when the stream has ended.
 * @returns false, having written nothing, when the client has been sent the job's end before
 * @throws {WavepoolError} JOB_NOT_FOUND, REDIS_UNAVAILABLE before the response has begun
 */
export async function followJob(
  services: Services,
  { queue, view: { id } }: FoundJob,
  { client, lastEventId }: { client: SseResponse; lastEventId: string | undefined },
): Promise<boolean> {
  const { connection } = services.queues;
  await services.events.followQueues();
  // The position is read first: what happens before the snapshot is then sent a second time, and not lost.
  const now = await readLastEventId(connection, queue.name);
  const { view } = await services.queues.get(id);
  const last = lastEventId === undefined ? undefined : decodeJobPosition(lastEventId);
  if (last?.endedAt !== undefined && last.endedAt === view.finishedAt) return false;
  const resumes = last !== undefined && (await isPositionKept(connection, queue.name, last.event));
  const position = resumes ? last : { event: now, segment: last?.segment ?? STREAM_START };
  const follower = new JobFollower({ services, queue, view, client, position });
  client.open();
  client.write(`${RETRY_HINT}\n`);
  if (!resumes) follower.sendSnapshot();
  await follower.run();
  return true;
}

interface JobFollowerOptions {
  readonly services: Services;
  readonly queue: AudioQueue;
  readonly view: JobView;
  readonly client: SseResponse;
  readonly position: JobPosition;
}

class JobFollower implements JobSubscriber {
  readonly #options: JobFollowerOptions;
  #position: JobPosition;
  /** The latest event of the job, when that is an end. It is not sent yet. */
  #end: BroadcastEvent | undefined;
  #hasSentEvents = false;
  #catchingUp = true;
  #finishing = false;
  #stopWatching: () => void = () => undefined;

  constructor(options: JobFollowerOptions) {
    this.#options = options;
    const { event, segment } = options.position;
    this.#position = { event, segment };
  }

  sendSnapshot(): void {
    this.#write({ type: 'job.snapshot', job: jobResource(this.#options.view) });
  }

  async run(): Promise<void> {
    const { services, queue, view, client } = this.#options;
    const { model } = queue;
    const after = this.#position.event;
    const onEvent = (event: BroadcastEvent): void => {
      if (event.jobId === view.id) this.onEvent(event);
    };
    const event = await readMissedEvents({ services, client, model, after, onEvent });
    this.#position = { ...this.#position, event };
    // No event can come between reading memory and subscribing: both happen in one turn.
    for (const kept of services.events.inMemoryAfter(new Map([[model, this.#position.event]]))) {
      if (kept.model === model) onEvent(kept);
    }
    const unsubscribe = services.events.subscribeToJob(model, view.id, this);
    this.#catchingUp = false;
    try {
      const end = this.#end?.event ?? this.#endOfView();
      if (end === undefined) this.#watchSegments();
      else await this.#finish(end);
      await client.whenEnded();
    } finally {
      this.#stopWatching();
      unsubscribe();
    }
  }

  onEvent(event: BroadcastEvent): void {
    if (this.#finishing || !isAfter(event.raw.id, this.#position.event)) return;
    // An event after an end means that the job was retried, so that end is an event like any other.
    if (this.#end !== undefined) this.#send(this.#end);
    this.#end = undefined;
    if (!JOB_END_EVENTS.has(event.type)) this.#send(event);
    else this.#handleEnd(event);
  }

  onHeartbeat(): void {
    this.#options.client.write(HEARTBEAT);
  }

  onGap(): void {
    this.#options.client.disconnect();
  }

  #handleEnd(event: BroadcastEvent): void {
    this.#end = event;
    // It never rejects.
    if (!this.#catchingUp && event.event !== undefined) void this.#finish(event.event);
  }

  /** Undefined when something newer was sent: then the job was retried, or its end follows. */
  #endOfView(): ServiceEvent | undefined {
    const { view, queue } = this.#options;
    const { finishedAt, outcome, failure } = view;
    if (this.#hasSentEvents || finishedAt === undefined) return undefined;
    const about = { at: new Date(finishedAt).toISOString(), model: queue.model, jobId: view.id };
    if (outcome !== undefined) return endEvent(about, { kind: 'completed', outcome });
    return failure && endEvent(about, { kind: 'failed', failure });
  }

  #watchSegments(): void {
    const { services, queue, view } = this.#options;
    if (!view.data.partials) return;
    this.#stopWatching = services.segments.watch(
      { queue: queue.name, jobId: view.id, after: this.#position.segment },
      (segments) => this.#sendSegments(segments),
    );
  }

  #sendSegments(segments: readonly WatchedSegment[]): void {
    const { queue, view } = this.#options;
    for (const { id, segment } of segments) {
      this.#position = { ...this.#position, segment: id };
      this.#write({ type: 'job.segment', model: queue.model, jobId: view.id, segment });
    }
  }

  /** Sends the remaining segments, then the end. All segments can be read from Redis once the end is known. */
  async #finish(end: ServiceEvent): Promise<void> {
    const { services, queue, view, client } = this.#options;
    const { connection } = services.queues;
    this.#finishing = true;
    this.#stopWatching();
    try {
      while (view.data.partials && !client.ended.aborted) {
        const after = this.#position.segment;
        const segments = await readSegments(connection, [
          { queue: queue.name, jobId: view.id, after },
        ]);
        if (segments.length === 0) break;
        this.#sendSegments(segments);
        await client.drained();
      }
      const endedAt = (await queue.get(view.id))?.finishedAt;
      const event = this.#end?.raw.id ?? this.#position.event;
      this.#position = { ...this.#position, event, endedAt };
      this.#write(end);
      client.end();
    } catch {
      // The client comes back and reads on.
      client.disconnect();
    }
  }

  #send(event: BroadcastEvent): void {
    this.#hasSentEvents = true;
    this.#position = { ...this.#position, event: event.raw.id };
    this.#options.client.write(event.encode(encodeJobPosition(this.#position)));
  }

  #write(event: ServiceEvent): void {
    this.#options.client.write(encodeEvent(encodeJobPosition(this.#position), event));
  }
}
