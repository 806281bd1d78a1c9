/** Reads events of a queue that were told before, and says whether all of them are still there. */
import type { Redis } from 'ioredis';
import { STREAM_START, type StreamId } from '../../core/http/event-position.ts';
import { toRedisError } from '../redis/connection.ts';
import { bullKey } from '../redis/queue-names.ts';

/** A queue's stream keeps about so many events; BullMQ's own default. */
export const EVENTS_KEPT = 10_000;

export interface StreamEvent {
  /** Growing. */
  readonly id: StreamId;
  readonly name: string;
  readonly fields: Readonly<Record<string, string | undefined>>;
}

export interface EventRange {
  /** The place of the last event that the reader knows. */
  readonly after: StreamId;
  /** The last place of interest. */
  readonly upTo: StreamId;
  readonly count: number;
}

export interface EventPage {
  readonly events: readonly StreamEvent[];
  /** False when events after `after` may be gone: the stream is capped, and Redis may lose its tail in a crash. */
  readonly complete: boolean;
}

type Entry = readonly [id: string, pairs: readonly string[]];

export function toStreamEvent([id, pairs]: Entry): StreamEvent {
  const fields: Record<string, string | undefined> = {};
  for (let index = 0; index < pairs.length; index += 2) {
    fields[String(pairs[index])] = pairs[index + 1];
  }
  const { event: name = '' } = fields;
  return { id, name, fields };
}

/** @throws {WavepoolError} REDIS_UNAVAILABLE */
export async function readEventPage(
  connection: Redis,
  queue: string,
  { after, upTo, count }: EventRange,
): Promise<EventPage> {
  const key = bullKey(connection, queue, 'events');
  const transaction = connection.multi().xlen(key).xrange(key, after, after);
  if (count > 0) transaction.xrange(key, `(${after}`, upTo, 'COUNT', count);
  try {
    const replies = (await transaction.exec()) ?? [];
    for (const [error] of replies) if (error) throw error;
    const [length, known, entries] = replies.map(([, reply]) => reply);
    const complete =
      after === STREAM_START ? Number(length) < EVENTS_KEPT : toEntries(known).length > 0;
    return { events: toEntries(entries).map(toStreamEvent), complete };
  } catch (error) {
    throw toRedisError(error);
  }
}

/** Whether everything after this place is still there. */
export async function isPositionKept(
  connection: Redis,
  queue: string,
  position: StreamId,
): Promise<boolean> {
  const range = { after: position, upTo: position, count: 0 };
  return (await readEventPage(connection, queue, range)).complete;
}

/** What XRANGE answers. */
function toEntries(reply: unknown): readonly Entry[] {
  return Array.isArray(reply) ? reply : [];
}
