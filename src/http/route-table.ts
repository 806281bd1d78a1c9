/** Every route there is; the order does not matter but for paths with parameters, which come after those without. */
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
import { scheduleRoutes } from './routes/schedules.ts';
import { sessionRoutes } from './routes/session.ts';
import { tenantRoutes } from './routes/tenants.ts';
import { uploadRoutes } from './routes/uploads.ts';
import { webhookRoutes } from './routes/webhooks.ts';

const WORK: readonly Route[] = [
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

export const ROUTES: readonly Route[] = [...WORK, ...docsRoutes(WORK)];
