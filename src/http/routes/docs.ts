/** The documentation of all routes, for programs and for people. */

import { WEBHOOK_DOCS } from '../../core/http/webhook-message.ts';
import { type JsonObject, openApiDocument } from '../../core/openapi.ts';
import { docsPage } from '../pages/docs-page.ts';
import { type Route, route } from '../request/route.ts';

const DESCRIPTION =
  'Durable batch processing of audio: jobs go into a queue per model, transcripts come out.';

/** @param others the other routes in the document */
export function docsRoutes(others: readonly Route[]): Route[] {
  const documents = new Map<string, JsonObject>();
  const describe = (version: string): JsonObject => {
    const known = documents.get(version);
    if (known !== undefined) return known;
    const info = { title: 'Wavepool', version, description: DESCRIPTION };
    const made = openApiDocument([...others, ...routes], info, WEBHOOK_DOCS);
    documents.set(version, made);
    return made;
  };
  const routes: Route[] = [
    route({
      method: 'get',
      path: '/openapi.json',
      name: 'getOpenApi',
      tag: 'documentation',
      summary: 'This document',
      scope: 'public',
      responses: { 200: { description: 'OpenAPI 3.1.' } },
      handle: ({ services }) => ({ status: 200, json: describe(services.version) }),
    }),
    route({
      method: 'get',
      path: '/docs',
      name: 'getDocsPage',
      tag: 'documentation',
      summary: 'The same for people',
      scope: 'public',
      responses: { 200: { description: 'HTML.', type: 'text/html' } },
      handle: ({ services }) => ({
        status: 200,
        text: docsPage(describe(services.version)),
        type: 'text/html',
      }),
    }),
  ];
  return routes;
}
