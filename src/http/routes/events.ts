/** Streams of server-sent events: of all queues, of one job and of one batch. */
import { JobParams } from '../../core/http/api.ts';
import { BatchParams } from '../../core/http/batch-api.ts';
import { EventsHeaders, EventsQuery, ServiceEvent } from '../../core/http/events.ts';
import { tenantFor } from '../auth/caller.ts';
import { ownBatch, ownJob } from '../auth/own-work.ts';
import { EventReader, TenantReader } from '../event-streams/event-reader.ts';
import { followBatch } from '../event-streams/follow-batch.ts';
import { followEvents } from '../event-streams/follow-events.ts';
import { followJob } from '../event-streams/follow-job.ts';
import { SseResponse } from '../event-streams/sse-response.ts';
import { EventFilter } from '../events/broadcast-event.ts';
import { logJob, requestContext } from '../request/request-context.ts';
import { type RouteRequest, route, STREAMED } from '../request/route.ts';

const STREAM = 'text/event-stream';

type AnyRequest = Pick<
  RouteRequest<unknown, unknown, unknown, unknown>,
  'req' | 'res' | 'services' | 'signal'
>;

function openClient({ req, res, services, signal }: AnyRequest): SseResponse {
  const { maxEventBytes } = services.settings;
  const { logger } = requestContext(res);
  const ending = AbortSignal.any([signal, services.closing]);
  return new SseResponse({ req, res, signal: ending, maxBufferedBytes: maxEventBytes, logger });
}

const followAll = route({
  method: 'get',
  path: '/v1/events',
  name: 'followEvents',
  tag: 'events',
  summary: 'The events of all queues, as they happen',
  description:
    'Server-sent events: `event` is the type, `data` an Event as JSON, `id` the place in all queues. With the last one as Last-Event-ID, a reader misses nothing and gets nothing twice; `stream.reset` tells of queues for which that is no longer possible. Segments are in the streams of their jobs only.',
  scope: 'read',
  forTenants: true,
  query: EventsQuery,
  headers: EventsHeaders,
  responses: { 200: { description: 'Until the client goes.', type: STREAM, schema: ServiceEvent } },
  handle: async (request): Promise<typeof STREAMED> => {
    const { query, headers, services, caller } = request;
    const tenant = tenantFor(caller, query.tenant);
    const client = openClient(request);
    const filter = new EventFilter(query);
    const { tenants } = services;
    const reader =
      tenant === undefined
        ? new EventReader(client, filter)
        : new TenantReader({ client, filter, tenant, tenants });
    const lastEventId = headers['last-event-id'];
    await followEvents(services, { client, reader, lastEventId });
    return STREAMED;
  },
});

const followJobOnly = route({
  method: 'get',
  path: '/v1/jobs/:id/events',
  name: 'followJob',
  tag: 'events',
  summary: 'The events of one job, until it has ended',
  description:
    'Server-sent events. Begins with `job.snapshot`, unless Last-Event-ID says where to go on; of a job with `partials`, every segment comes as `job.segment`. Ends after `job.completed`, `job.failed` or `job.removed`; a client that comes back after that gets 204, which browsers take for an end.',
  scope: 'read',
  forTenants: true,
  params: JobParams,
  headers: EventsHeaders,
  responses: {
    200: { description: 'Until the job ends.', type: STREAM, schema: ServiceEvent },
    204: { description: 'The end was told before.' },
  },
  errors: ['JOB_NOT_FOUND'],
  handle: async (request) => {
    const { params, headers, services, res } = request;
    logJob(res, params.id);
    const found = await ownJob(params.id, request);
    const client = openClient(request);
    const lastEventId = headers['last-event-id'];
    const isFollowed = await followJob(services, found, { client, lastEventId });
    return isFollowed ? STREAMED : { status: 204 };
  },
});

const followBatchOnly = route({
  method: 'get',
  path: '/v1/batches/:id/events',
  name: 'followBatch',
  tag: 'events',
  summary: 'The events of one batch, until all its items have ended',
  description:
    'Server-sent events. Begins with `batch.snapshot`, unless Last-Event-ID says where to go on; `batch.progress` tells new counts, at most once a second. Ends after `batch.finished`; a client that comes back after that gets 204, which browsers take for an end.',
  scope: 'read',
  forTenants: true,
  params: BatchParams,
  headers: EventsHeaders,
  responses: {
    200: { description: 'Until the batch has finished.', type: STREAM, schema: ServiceEvent },
    204: { description: 'The end was told before.' },
  },
  errors: ['BATCH_NOT_FOUND'],
  handle: async (request) => {
    const { params, headers, services } = request;
    await ownBatch(params.id, request);
    const client = openClient(request);
    const lastEventId = headers['last-event-id'];
    const isFollowed = await followBatch(services, params.id, { client, lastEventId });
    return isFollowed ? STREAMED : { status: 204 };
  },
});

export const eventRoutes = [followAll, followJobOnly, followBatchOnly];
