/** The pages of the dashboard and their files. */

import { WavepoolError } from '../../core/errors.ts';
import { AssetParams } from '../../core/http/api.ts';
import { loginAddress } from '../auth/authenticate.ts';
import { ASSETS, ASSETS_BUILD } from '../pages/assets.ts';
import { jobPage, jobsPage, overviewPage, uploadPage } from '../pages/dashboard-pages.ts';
import { type Route, route, STREAMED } from '../request/route.ts';
import type { Services } from '../services.ts';

function showPage(
  path: string,
  name: string,
  summary: string,
  render: (services: Services) => string,
): Route {
  return route({
    method: 'get',
    path,
    name,
    tag: 'pages',
    summary,
    scope: 'public',
    responses: { 200: { description: 'HTML.', type: 'text/html' } },
    handle: async ({ req, services }) => {
      const login = await loginAddress(req, services);
      if (login !== undefined) return { status: 302, headers: { Location: login } };
      const headers = { 'Cache-Control': 'no-cache' };
      return { status: 200, text: render(services), type: 'text/html', headers };
    },
  });
}

const goHome = route({
  method: 'get',
  path: '/',
  name: 'getHome',
  tag: 'pages',
  summary: 'Leads to the overview',
  scope: 'public',
  responses: { 302: { description: 'To the overview.' } },
  handle: () => ({ status: 302, headers: { Location: '/dashboard' } }),
});

const getAsset = route({
  method: 'get',
  path: '/assets/:build/:name',
  name: 'getAsset',
  tag: 'pages',
  summary: 'A file of the pages',
  scope: 'public',
  params: AssetParams,
  responses: { 200: { description: 'The file.', type: '*/*' } },
  errors: ['ROUTE_NOT_FOUND'],
  handle: async ({ params: { build, name }, req, res }): Promise<typeof STREAMED> => {
    if (build !== ASSETS_BUILD) throw new WavepoolError('ROUTE_NOT_FOUND', `${build}/${name}`);
    await ASSETS.send(req, res, name, 'public, max-age=31536000, immutable');
    return STREAMED;
  },
});

/** The documentation of the interface leaves these out, because programs do not need them. */
export const pageRoutes: readonly Route[] = [
  goHome,
  showPage('/dashboard', 'getOverviewPage', 'Workers, models, queues', overviewPage),
  showPage('/dashboard/upload', 'getUploadPage', 'Transcribe a recording', ({ settings }) =>
    uploadPage(settings.defaultModel),
  ),
  showPage('/dashboard/jobs', 'getJobsPage', 'All jobs', jobsPage),
  showPage('/dashboard/jobs/:id', 'getJobPage', 'One job', jobPage),
  getAsset,
];
