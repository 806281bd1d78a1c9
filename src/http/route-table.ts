/** Every route that is documented; the order does not matter. */
import type { Route } from './route.ts';
import { healthRoutes } from './routes/health.ts';
import { jobRoutes } from './routes/jobs.ts';
import { uploadRoutes } from './routes/uploads.ts';

export const ROUTES: readonly Route[] = [...jobRoutes, ...uploadRoutes, ...healthRoutes];
