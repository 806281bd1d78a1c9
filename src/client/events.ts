/** Events of the server: of all queues, of one job, and of one batch. */
import { BATCH_END_EVENT, JOB_END_EVENTS, ServiceEvent } from '../core/http/events.ts';
import { parseLeniently } from '../core/lenient-parse.ts';
import { EventFeed } from './event-feed.ts';
import type { SseMessage } from './sse-parser.ts';
import { apiPath, type CallOptions, type Transport } from './transport.ts';

export interface FollowOptions extends CallOptions {
  /** Begin after this event: the `lastEventId` of an earlier feed of the same kind. */
  readonly lastEventId?: string | undefined;
}

export interface EventFilter {
  /** Only events of these models. */
  readonly models?: readonly string[] | undefined;
  /** Only events of this tenant's jobs. */
  readonly tenant?: string | undefined;
  /** Only these types; `job.*` for all of a kind. */
  readonly types?: readonly string[] | undefined;
}

/** Goes on for ever. */
export function serviceEvents(
  transport: Transport,
  { models, tenant, types }: EventFilter,
  { lastEventId, signal }: FollowOptions,
): EventFeed<ServiceEvent> {
  return new EventFeed(transport, {
    path: '/v1/events',
    query: { model: models?.join(','), tenant, types: types?.join(',') },
    parse: toServiceEvent,
    lastEventId,
    signal,
  });
}

/** Ends with the job. */
export function jobEvents(
  transport: Transport,
  id: string,
  { lastEventId, signal }: FollowOptions,
): EventFeed<ServiceEvent> {
  return new EventFeed(transport, {
    path: apiPath`/v1/jobs/${id}/events`,
    parse: toServiceEvent,
    isLast: ({ type }) => JOB_END_EVENTS.has(type),
    lastEventId,
    signal,
  });
}

/** Ends with the batch. */
export function batchEvents(
  transport: Transport,
  id: string,
  { lastEventId, signal }: FollowOptions,
): EventFeed<ServiceEvent> {
  return new EventFeed(transport, {
    path: apiPath`/v1/batches/${id}/events`,
    parse: toServiceEvent,
    isLast: ({ type }) => type === BATCH_END_EVENT,
    lastEventId,
    signal,
  });
}

/** A newer server may tell what this version does not know: that is left out, unless somebody waits for it. */
function toServiceEvent({ event, data }: SseMessage): ServiceEvent | undefined {
  try {
    return parseLeniently(ServiceEvent, JSON.parse(data), event);
  } catch (error) {
    if (JOB_END_EVENTS.has(event) || event === BATCH_END_EVENT) throw error;
    return undefined;
  }
}
