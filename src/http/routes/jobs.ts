/** Jobs: looking at them. */
import { JobParams, JobResource } from '../../core/api.ts';
import { jobResource } from '../job-resource.ts';
import { logJob } from '../request-context.ts';
import { route } from '../route.ts';

export const jobRoutes = [
  route({
    method: 'get',
    path: '/v1/jobs/:id',
    name: 'getJob',
    tag: 'jobs',
    summary: 'One job',
    scope: 'read',
    params: JobParams,
    responses: { 200: { description: 'As it stands.', schema: JobResource } },
    errors: ['JOB_NOT_FOUND'],
    handle: async ({ params, services, res }) => {
      logJob(res, params.id);
      const { view } = await services.queues.get(params.id);
      return { status: 200, json: jobResource(view) };
    },
  }),
];
