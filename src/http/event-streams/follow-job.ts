/** The story of one job for one client, from a snapshot or from where it was, until the job has ended. */
import {
  decodeJobPosition,
  encodeJobPosition,
  isAfter,
  type JobPosition,
  STREAM_START,
} from '../../core/http/event-position.ts';
import { JOB_END_EVENTS, type ServiceEvent } from '../../core/http/events.ts';
import type { AudioQueue } from '../../queue/audio-queue.ts';
import { isPositionKept, readEventPage } from '../../queue/events/event-history.ts';
import { readLastEventId } from '../../queue/events/job-ends.ts';
import type { WatchedSegment } from '../../queue/events/segment-feed.ts';
import { readSegments } from '../../queue/events/segment-stream.ts';
import { endEvent } from '../../queue/events/service-events.ts';
import type { JobView } from '../../queue/jobs/job-view.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { JobReader } from '../events/event-hub.ts';
import { eventFrame, FeedEvent } from '../events/feed-event.ts';
import { jobResource } from '../resources/job-resource.ts';
import type { Services } from '../services.ts';
import { HEARTBEAT, RETRY_HINT, type SseResponse } from './sse-response.ts';

const PAGE = 1_000;

/**
 * Resolves when the stream has ended.
 * @returns false, having written nothing, when the client knows of the job's end already
 * @throws {WavepoolError} JOB_NOT_FOUND, REDIS_UNAVAILABLE before the response has begun
 */
export async function followJob(
  services: Services,
  { queue, view: { id } }: FoundJob,
  { client, lastEventId }: { client: SseResponse; lastEventId: string | undefined },
): Promise<boolean> {
  const { connection } = services.queues;
  await services.events.refresh();
  // In this order: what happens between the two is told after the snapshot, and twice is better than never.
  const now = await readLastEventId(connection, queue.name);
  const { view } = await services.queues.get(id);
  const told = lastEventId === undefined ? undefined : decodeJobPosition(lastEventId);
  if (told?.endedAt !== undefined && told.endedAt === view.finishedAt) return false;
  const resumes = told !== undefined && (await isPositionKept(connection, queue.name, told.event));
  const position = resumes ? told : { event: now, segment: told?.segment ?? STREAM_START };
  const follower = new JobFollower({ services, queue, view, client, position });
  client.open();
  client.write(`${RETRY_HINT}\n`);
  if (!resumes) follower.tellSnapshot();
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

class JobFollower implements JobReader {
  readonly #options: JobFollowerOptions;
  #position: JobPosition;
  /** An end that is the last thing known of the job. */
  #end: FeedEvent | undefined;
  #wasTold = false;
  #catchingUp = true;
  #finishing = false;
  #stopWatching: () => void = () => undefined;

  constructor(options: JobFollowerOptions) {
    this.#options = options;
    const { event, segment } = options.position;
    this.#position = { event, segment };
  }

  tellSnapshot(): void {
    this.#write({ type: 'job.snapshot', job: jobResource(this.#options.view) });
  }

  async run(): Promise<void> {
    const { services, queue, view, client } = this.#options;
    await this.#catchUp();
    // Nothing happens between memory and joining.
    for (const event of services.events.after(new Map([[queue.model, this.#position.event]]))) {
      if (event.model === queue.model && event.jobId === view.id) this.take(event);
    }
    const leave = services.events.joinJob(queue.model, view.id, this);
    this.#catchingUp = false;
    try {
      const end = this.#end?.event ?? this.#endOfView();
      if (end === undefined) this.#watchSegments();
      else await this.#finish(end);
      await client.whenEnded();
    } finally {
      this.#stopWatching();
      leave();
    }
  }

  take(event: FeedEvent): void {
    if (this.#finishing || !isAfter(event.raw.id, this.#position.event)) return;
    // The job was tried once more.
    if (this.#end !== undefined) this.#tell(this.#end);
    this.#end = undefined;
    if (!JOB_END_EVENTS.has(event.type)) this.#tell(event);
    else this.#hearEnd(event);
  }

  beat(): void {
    this.#options.client.write(HEARTBEAT);
  }

  cutOff(): void {
    this.#options.client.cutOff();
  }

  #hearEnd(event: FeedEvent): void {
    this.#end = event;
    // Never rejects.
    if (!this.#catchingUp && event.event !== undefined) void this.#finish(event.event);
  }

  async #catchUp(): Promise<void> {
    const { services, queue, view, client } = this.#options;
    while (!client.ended.aborted) {
      const { event: after } = this.#position;
      const upTo = services.events.behind(queue.model, after);
      if (upTo === undefined) return;
      const range = { after, upTo, count: PAGE };
      const { events, complete } = await readEventPage(
        services.queues.connection,
        queue.name,
        range,
      );
      // It comes back, and gets a snapshot.
      if (!complete) {
        client.cutOff();
        return;
      }
      for (const raw of events) {
        const event = FeedEvent.of(queue.model, raw);
        if (event?.jobId === view.id) this.take(event);
      }
      const reached = events.length < PAGE ? upTo : (events.at(-1)?.id ?? upTo);
      this.#position = { ...this.#position, event: reached };
      await client.drained();
    }
  }

  /** Unless something newer was told: then the job was retried, or its end is on its way. */
  #endOfView(): ServiceEvent | undefined {
    const { view, queue } = this.#options;
    const { finishedAt, outcome, failure } = view;
    if (this.#wasTold || finishedAt === undefined) return undefined;
    const about = { at: new Date(finishedAt).toISOString(), model: queue.model, jobId: view.id };
    if (outcome !== undefined) return endEvent(about, { kind: 'completed', outcome });
    return failure && endEvent(about, { kind: 'failed', failure });
  }

  #watchSegments(): void {
    const { services, queue, view } = this.#options;
    if (!view.data.partials) return;
    this.#stopWatching = services.segments.watch(
      { queue: queue.name, jobId: view.id, after: this.#position.segment },
      (segments) => this.#tellSegments(segments),
    );
  }

  #tellSegments(segments: readonly WatchedSegment[]): void {
    const { queue, view } = this.#options;
    for (const { id, segment } of segments) {
      this.#position = { ...this.#position, segment: id };
      this.#write({ type: 'job.segment', model: queue.model, jobId: view.id, segment });
    }
  }

  /** Every segment that was told can be read once the end is known. */
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
        this.#tellSegments(segments);
        await client.drained();
      }
      const endedAt = (await queue.get(view.id))?.finishedAt;
      const event = this.#end?.raw.id ?? this.#position.event;
      this.#position = { ...this.#position, event, endedAt };
      this.#write(end);
      client.end();
    } catch {
      // It comes back and reads on.
      client.cutOff();
    }
  }

  #tell(event: FeedEvent): void {
    this.#wasTold = true;
    this.#position = { ...this.#position, event: event.raw.id };
    this.#options.client.write(event.frame(encodeJobPosition(this.#position)));
  }

  #write(event: ServiceEvent): void {
    this.#options.client.write(eventFrame(encodeJobPosition(this.#position), event));
  }
}
