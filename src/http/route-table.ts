/**
 * Every route of the server but the queue board, which is an app of its own below `/dashboard/queues`. A path without
 * parameters must come before one with parameters that also matches it.
 */
import type { Route } from './request/route.ts';
import { batchRoutes } from './routes/batches.ts';
import { controlRoutes } from './routes/control.ts';
import { docsRoutes } from './routes/docs.ts';
import { eventRoutes } from './routes/events.ts';
import { fleetRoutes } from './routes/fleet.ts';
import { healthRoutes } from './routes/health.ts';
import { jobRoutes } from './routes/jobs.ts';
import { keyRoutes } from './routes/keys.ts';
import { liveRoutes } from './routes/live.ts';
import { openAiRoutes } from './routes/openai.ts';
import { pageRoutes } from './routes/pages.ts';
import { scheduleRoutes } from './routes/schedules.ts';
import { sessionRoutes } from './routes/session.ts';
import { tenantRoutes } from './routes/tenants.ts';
import { uploadRoutes } from './routes/uploads.ts';
import { webhookRoutes } from './routes/webhooks.ts';

const DESCRIBED: readonly Route[] = [
  ...jobRoutes,
  ...batchRoutes,
  ...uploadRoutes,
  ...webhookRoutes,
  ...eventRoutes,
  ...fleetRoutes,
  ...controlRoutes,
  ...tenantRoutes,
  ...scheduleRoutes,
  ...openAiRoutes,
  ...liveRoutes,
  ...keyRoutes,
  ...sessionRoutes,
  ...healthRoutes,
];

/** The routes in the OpenAPI document. */
export const DOCUMENTED_ROUTES: readonly Route[] = [...DESCRIBED, ...docsRoutes(DESCRIBED)];

export const ROUTES: readonly Route[] = [...DOCUMENTED_ROUTES, ...pageRoutes];
