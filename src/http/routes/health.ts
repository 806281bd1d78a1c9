/** Health, readiness and metrics of the server. */
import { assertTakesJobs } from '../../queue/redis/connection.ts';
import { route } from '../request/route.ts';

export const healthRoutes = [
  route({
    method: 'get',
    path: '/healthz',
    name: 'getHealth',
    tag: 'operations',
    summary: 'Whether the process answers',
    scope: 'public',
    responses: { 200: { description: 'It does.', type: 'text/plain' } },
    handle: () => ({ status: 200, text: 'ok\n' }),
  }),
  route({
    method: 'get',
    path: '/readyz',
    name: 'getReadiness',
    tag: 'operations',
    summary:
      'Whether jobs can be taken: Redis answers, takes writes and suits, and the server is not ending',
    scope: 'public',
    responses: { 200: { description: 'They can.', type: 'text/plain' } },
    handle: async ({ services: { queues } }) => {
      await assertTakesJobs(queues.connection);
      return { status: 200, text: 'ok\n' };
    },
  }),
  route({
    method: 'get',
    path: '/metrics',
    name: 'getMetrics',
    tag: 'operations',
    summary: 'Figures for Prometheus',
    scope: 'read',
    responses: { 200: { description: 'In its text format.', type: 'text/plain' } },
    handle: async ({ services: { metrics, queues } }) => {
      // The queues of new models are observed from now on. When Redis is away, the metrics show that.
      await queues.openAll().catch(() => undefined);
      return { status: 200, text: await metrics.render(), type: metrics.contentType };
    },
  }),
];
