/** The segments of all jobs that somebody watches, read over one connection. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { isAfter, STREAM_START, type StreamId } from '../../core/http/event-position.ts';
import type { PartialSegment } from '../../core/job/job.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
} from '../redis/connection.ts';
import { readSegments, type SegmentPosition } from './segment-stream.ts';

export interface WatchedSegment {
  /** Its place in the stream of the job. */
  readonly id: StreamId;
  readonly segment: PartialSegment;
}

export type SegmentListener = (segments: readonly WatchedSegment[]) => void;

interface Watch {
  last: StreamId;
  readonly tell: SegmentListener;
}

interface WatchedJob {
  readonly queue: string;
  readonly jobId: string;
  /** Where the next reading begins: as far back as the watch that has got least. */
  after: StreamId;
  readonly watches: Set<Watch>;
}

/** A job that is watched while a reading waits joins the next one: it waits at most this long. */
const BLOCK_MS = 250;
const PAUSE_AFTER_ERROR_MS = 500;

export class SegmentFeed {
  readonly #address: RedisAddress;
  readonly #jobs = new Map<string, WatchedJob>();
  readonly #closed = new AbortController();
  #reading = false;

  constructor(address: RedisAddress) {
    this.#address = address;
  }

  /** Tells every segment of the job after `after`, each once and in order. Returns what ends it. */
  watch(
    { queue, jobId, after = STREAM_START }: SegmentPosition,
    tell: SegmentListener,
  ): () => void {
    const key = `${queue}/${jobId}`;
    const job = this.#jobs.get(key) ?? { queue, jobId, after, watches: new Set() };
    if (isAfter(job.after, after)) job.after = after;
    const watch = { last: after, tell };
    job.watches.add(watch);
    this.#jobs.set(key, job);
    this.#start();
    return () => {
      job.watches.delete(watch);
      if (job.watches.size === 0 && this.#jobs.get(key) === job) this.#jobs.delete(key);
    };
  }

  /** Idempotent. */
  close(): void {
    this.#jobs.clear();
    this.#closed.abort();
  }

  #start(): void {
    if (this.#reading || this.#closed.signal.aborted) return;
    this.#reading = true;
    // It never rejects, and ends when nobody watches.
    void this.#readAll().finally(() => {
      this.#reading = false;
      if (this.#jobs.size > 0) this.#start();
    });
  }

  async #readAll(): Promise<void> {
    const { signal } = this.#closed;
    const connection = openConnection(this.#address, { role: 'patient', name: 'segments' });
    const end = (): void => closeConnection(connection);
    signal.addEventListener('abort', end);
    try {
      await connect(connection, this.#address);
      while (this.#jobs.size > 0) await this.#readSome(connection);
    } catch {
      // Partial segments are a convenience: whoever misses some has the transcript.
      await sleep(PAUSE_AFTER_ERROR_MS, undefined, { signal }).catch(() => undefined);
    } finally {
      signal.removeEventListener('abort', end);
      end();
    }
  }

  async #readSome(connection: Redis): Promise<void> {
    const asked = [...this.#jobs.values()].map((job) => ({ job, after: job.after }));
    const places = asked.map(({ job: { queue, jobId }, after }) => ({ queue, jobId, after }));
    const read = await readSegments(connection, places, { blockMs: BLOCK_MS });
    for (const { job, after } of asked) {
      const segments = read.filter(
        ({ queue, jobId }) => queue === job.queue && jobId === job.jobId,
      );
      if (segments.length === 0) continue;
      // A watch that begins further back joined meanwhile; the next reading is for it.
      if (job.after === after) job.after = segments.at(-1)?.id ?? after;
      for (const watch of [...job.watches]) tellNew(watch, after, segments);
    }
  }
}

function tellNew(watch: Watch, after: StreamId, segments: readonly WatchedSegment[]): void {
  if (isAfter(after, watch.last)) return;
  const fresh = segments.filter(({ id }) => isAfter(id, watch.last));
  watch.last = fresh.at(-1)?.id ?? watch.last;
  if (fresh.length > 0) watch.tell(fresh.map(({ id, segment }) => ({ id, segment })));
}
