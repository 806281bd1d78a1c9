/**
 * The segments of running jobs, for whoever wants to see a transcript arrive: one stream per job, capped, and gone some
 * time after the job. The transcript in the result store is what counts.
 */

import type { Redis } from 'ioredis';
import { type PartialSegment, parsePartialSegment } from '../../core/job/job.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { toRedisError } from '../redis/connection.ts';
import { segmentStreamKey } from '../redis/queue-names.ts';

/** Of one job; the oldest go first. */
const MOST_SEGMENTS = 4_096;
/** After the last segment. */
const LIFE_SECONDS = 3_600;
/** Of one stream in one call. */
const BATCH = 1_000;

/** Tells the segments of one job; for its worker. */
export class SegmentWriter {
  readonly #connection: Redis;
  readonly #key: string;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connection: Redis, queue: string, jobId: string) {
    this.#connection = connection;
    this.#key = segmentStreamKey(connection, queue, jobId);
  }

  append(segment: PartialSegment): void {
    // A job does not fail because nobody could be told how it goes.
    this.#last = this.#connection
      .multi()
      .xadd(this.#key, 'MAXLEN', '~', MOST_SEGMENTS, '*', 'segment', JSON.stringify(segment))
      .expire(this.#key, LIFE_SECONDS)
      .exec()
      .catch(() => undefined);
  }

  /** Resolves when readers can see what was appended, or it is lost. */
  async flushed(): Promise<void> {
    await this.#last;
  }
}

/** How far a reader has read in the stream of a job. */
export interface SegmentPosition {
  readonly queue: string;
  readonly jobId: string;
  /** The `id` of the last segment that was read; without it from the beginning. */
  readonly after?: string | undefined;
}

export interface StreamedSegment {
  readonly queue: string;
  readonly jobId: string;
  /** Grows from segment to segment of a job; goes on there with `after`. */
  readonly id: string;
  readonly segment: PartialSegment;
}

export interface ReadSegmentsOptions {
  /**
   * Wait this long for a segment when there is none. Such a call keeps its connection to itself.
   * @defaultValue not at all
   */
  readonly blockMs?: number;
}

/**
 * The next segments of some jobs, in the order of each job's stream. Every segment of a job can be read once the job's end
 * is known: whoever hears of the end reads once more.
 * @throws {WavepoolError} REDIS_UNAVAILABLE
 */
export async function readSegments(
  connection: Redis,
  positions: readonly SegmentPosition[],
  { blockMs }: ReadSegmentsOptions = {},
): Promise<StreamedSegment[]> {
  if (positions.length === 0) return [];
  const byKey = new Map(
    positions.map((position) => [
      segmentStreamKey(connection, position.queue, position.jobId),
      position,
    ]),
  );
  const places = [...byKey.keys(), ...[...byKey.values()].map(({ after = '0-0' }) => after)];
  try {
    const reply = await (blockMs === undefined
      ? connection.xread('COUNT', BATCH, 'STREAMS', ...places)
      : connection.xread('COUNT', BATCH, 'BLOCK', blockMs, 'STREAMS', ...places));
    return (reply ?? []).flatMap(([key, entries]) => {
      const position = byKey.get(key);
      if (position === undefined) return [];
      const { queue, jobId } = position;
      return entries.flatMap(([id, [, text]]) => {
        const segment = parsePartialSegment(parseJson(text));
        return segment === undefined ? [] : [{ queue, jobId, id, segment }];
      });
    });
  } catch (error) {
    throw toRedisError(error);
  }
}
