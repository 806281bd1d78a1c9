/**
 * Ids of events in the HTTP interface: where a reader has got to in every queue's event stream, so that it can go on exactly
 * there, on any server. `moonshine-tiny:mb3k9x1q.2,whisper-tiny.en:mb3k9x00` names a place by its milliseconds and number,
 * in base 36.
 */

/** A place in a stream of Redis, `milliseconds-number`. */
export type StreamId = string;

/** Before the first event. */
export const STREAM_START: StreamId = '0-0';

/** How far a reader has read in the queue of each model. */
export type EventPositions = ReadonlyMap<string, StreamId>;

const SHORT = /^([0-9a-z]{1,11})(?:\.([0-9a-z]{1,11}))?$/;
const PLACE = /^([a-z0-9][a-z0-9._-]{0,63}):(.+)$/;

export function isAfter(id: StreamId, other: StreamId): boolean {
  const [ms = 0, number = 0] = id.split('-').map(Number);
  const [otherMs = 0, otherNumber = 0] = other.split('-').map(Number);
  return ms > otherMs || (ms === otherMs && number > otherNumber);
}

/** Milliseconds since 1970. */
export function timeOf(id: StreamId): number {
  return Number.parseInt(id, 10);
}

export function shortId(id: StreamId): string {
  const [ms = 0, number = 0] = id.split('-').map(Number);
  return number === 0 ? ms.toString(36) : `${ms.toString(36)}.${number.toString(36)}`;
}

function longId(short: string): StreamId | undefined {
  const [, ms, number = '0'] = SHORT.exec(short) ?? [];
  if (ms === undefined) return undefined;
  return `${Number.parseInt(ms, 36)}-${Number.parseInt(number, 36)}`;
}

export function encodePositions(positions: EventPositions): string {
  return [...positions].map(([model, id]) => `${model}:${shortId(id)}`).join(',');
}

/** Undefined for what is no such id. */
export function decodePositions(text: string): Map<string, StreamId> | undefined {
  const positions = new Map<string, StreamId>();
  for (const place of text.split(',')) {
    const [, model, short = ''] = PLACE.exec(place) ?? [];
    const id = longId(short);
    if (model === undefined || id === undefined) return undefined;
    positions.set(model, id);
  }
  return positions;
}

/** How far the reader of one job has read. */
export interface JobPosition {
  /** In the event stream of the job's queue. */
  readonly event: StreamId;
  /** In the stream of the job's segments. */
  readonly segment: StreamId;
  /** When the job ended whose end the reader was told; milliseconds since 1970. */
  readonly endedAt?: number | undefined;
}

export function encodeJobPosition({ event, segment, endedAt }: JobPosition): string {
  const end = endedAt === undefined ? [] : [endedAt.toString(36)];
  return [shortId(event), shortId(segment), ...end].join(';');
}

/** Undefined for what is no such id. */
export function decodeJobPosition(text: string): JobPosition | undefined {
  const [event = '', segment = '', end, ...more] = text.split(';');
  const [eventId, segmentId] = [longId(event), longId(segment)];
  const endedAt = end === undefined ? undefined : Number.parseInt(end, 36);
  if (eventId === undefined || segmentId === undefined || more.length > 0) return undefined;
  return { event: eventId, segment: segmentId, endedAt };
}
