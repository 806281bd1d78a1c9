/** Batches of jobs: many inputs, or a folder of the server, in one request. */
import { IdempotencyHeaders } from '../../core/http/api.ts';
import {
  BatchItemPage,
  BatchItemQuery,
  BatchListQuery,
  BatchPageResource,
  BatchParams,
  BatchRequest,
  BatchResource,
  BatchResultLine,
  BatchResultQuery,
  BatchRetryQuery,
  BatchRetryResource,
  BatchSubmission,
  batchLinks,
} from '../../core/http/batch-api.ts';
import { assertFormats, defaultFormat } from '../../core/results/result-formats.ts';
import { tenantFor } from '../auth/caller.ts';
import { ownBatch } from '../auth/own-work.ts';
import { route, STREAMED } from '../request/route.ts';
import {
  batchItemResource,
  batchResource,
  decodeBatchCursor,
  decodeItemCursor,
  encodeBatchCursor,
} from '../resources/batch-resource.ts';
import { sendResultArchive, sendResultLines } from '../resources/batch-results.ts';
import { submitBatch, submitBatchLines } from '../submit/submit-batch.ts';

const LINES_TYPE = 'application/x-ndjson';

/** A JSON body is parsed in one step, during which the server does nothing else. JSON lines have no such limit. */
const MAX_BODY_BYTES = 8 * 1024 ** 2;

const createBatch = route({
  method: 'post',
  path: '/v1/batches',
  name: 'createBatch',
  tag: 'batches',
  summary: 'Add many jobs as one batch',
  description:
    'The inputs are a list or a directory of the server; or send one input a line, any number of them, after a first line `{"batch": {…}}` with the settings. The answer comes when all have been added. A submission that broke off goes on where it stopped when it is sent again with the same `Idempotency-Key`; without one it is cancelled. Lines are not compared: under one key, send the same ones in the same order.',
  scope: 'submit',
  forTenants: true,
  headers: IdempotencyHeaders,
  body: BatchRequest,
  consumes: ['application/json', LINES_TYPE],
  maxBodyBytes: MAX_BODY_BYTES,
  responses: {
    202: {
      description: 'Added, or added before under the same key.',
      schema: BatchSubmission,
      headers: { Location: 'the address of the batch' },
    },
  },
  errors: [
    'MODEL_UNKNOWN',
    'TASK_UNSUPPORTED',
    'OPTION_UNSUPPORTED',
    'QUEUE_FULL',
    'IDEMPOTENCY_CONFLICT',
    'INPUT_NOT_FOUND',
    'INPUT_FORBIDDEN',
    'REQUEST_TOO_LARGE',
    'MEDIA_TYPE_UNSUPPORTED',
  ],
  handle: async ({ body, headers, req, services, caller, signal, logger }) => {
    const context = {
      services,
      caller,
      signal,
      logger,
      idempotencyKey: headers['idempotency-key'],
    };
    const { view, skipped, unreadable } = await (body === undefined
      ? submitBatchLines(req, context)
      : submitBatch(body, context));
    logger.info({ batchId: view.id, ...view.counts }, 'batch added');
    const json = { ...batchResource(view), skipped, unreadable };
    return { status: 202, json, headers: { Location: batchLinks(view.id).self } };
  },
});

const listBatches = route({
  method: 'get',
  path: '/v1/batches',
  name: 'listBatches',
  tag: 'batches',
  summary: 'Batches, the latest first',
  scope: 'read',
  forTenants: true,
  query: BatchListQuery,
  responses: { 200: { description: 'One page.', schema: BatchPageResource } },
  handle: async ({ query: { cursor, ...filter }, services, caller }) => {
    const after = cursor === undefined ? undefined : decodeBatchCursor(cursor);
    const { views, next } = await services.batches.list({
      ...filter,
      tenant: tenantFor(caller, filter.tenant),
      cursor: after,
    });
    const nextCursor = next === undefined ? null : encodeBatchCursor(next);
    return { status: 200, json: { items: views.map(batchResource), nextCursor } };
  },
});

const getBatch = route({
  method: 'get',
  path: '/v1/batches/:id',
  name: 'getBatch',
  tag: 'batches',
  summary: 'One batch with its counts',
  scope: 'read',
  forTenants: true,
  params: BatchParams,
  responses: { 200: { description: 'As it stands.', schema: BatchResource } },
  errors: ['BATCH_NOT_FOUND'],
  handle: async ({ params, services, caller }) => ({
    status: 200,
    json: batchResource(await ownBatch(params.id, { services, caller })),
  }),
});

const listBatchItems = route({
  method: 'get',
  path: '/v1/batches/:id/items',
  name: 'listBatchItems',
  tag: 'batches',
  summary: 'The items of a batch in the order of submission',
  scope: 'read',
  forTenants: true,
  params: BatchParams,
  query: BatchItemQuery,
  responses: { 200: { description: 'One page.', schema: BatchItemPage } },
  errors: ['BATCH_NOT_FOUND'],
  handle: async ({ params, query: { cursor, ...filter }, services, caller }) => {
    await ownBatch(params.id, { services, caller });
    const after = cursor === undefined ? undefined : decodeItemCursor(cursor);
    const { items, next } = await services.batches.items(params.id, { ...filter, cursor: after });
    const nextCursor = next === undefined ? null : String(next);
    return { status: 200, json: { items: items.map(batchItemResource), nextCursor } };
  },
});

const getBatchResults = route({
  method: 'get',
  path: '/v1/batches/:id/results',
  name: 'getBatchResults',
  tag: 'batches',
  summary: 'The results of all items that have ended, as one stream',
  description:
    'As JSON lines, with failures in their places; or as a ZIP archive of the results of completed items, named after their inputs and, for a directory, in its folders.',
  scope: 'read',
  forTenants: true,
  params: BatchParams,
  query: BatchResultQuery,
  responses: {
    200: {
      description: 'Lines like this one, or application/zip by `format`.',
      type: LINES_TYPE,
      schema: BatchResultLine,
    },
  },
  errors: ['BATCH_NOT_FOUND'],
  handle: async ({ params, query, services, caller, signal, res }): Promise<typeof STREAMED> => {
    const batch = await ownBatch(params.id, { services, caller });
    const { as = defaultFormat(batch.task) } = query;
    assertFormats(batch.task, [as]);
    const stream = { batch, format: as, services, signal };
    await (query.format === 'zip' ? sendResultArchive(stream, res) : sendResultLines(stream, res));
    return STREAMED;
  },
});

const cancelBatch = route({
  method: 'delete',
  path: '/v1/batches/:id',
  name: 'cancelBatch',
  tag: 'batches',
  summary: 'Cancel all items of a batch that have not ended',
  description: 'Waiting items have ended when the answer comes; running ones end soon.',
  scope: 'submit',
  forTenants: true,
  params: BatchParams,
  responses: {
    200: { description: 'All items have ended.', schema: BatchResource },
    202: { description: 'The workers of running items were told.', schema: BatchResource },
  },
  errors: ['BATCH_NOT_FOUND'],
  handle: async ({ params, services, caller }) => {
    await ownBatch(params.id, { services, caller });
    const view = await services.batches.cancel(params.id);
    const busy = view.counts.waiting + view.counts.running > 0;
    return { status: busy ? 202 : 200, json: batchResource(view) };
  },
});

const retryBatch = route({
  method: 'post',
  path: '/v1/batches/:id/retry',
  name: 'retryBatch',
  tag: 'batches',
  summary: 'Run the failed items of a batch once more',
  scope: 'submit',
  forTenants: true,
  params: BatchParams,
  query: BatchRetryQuery,
  responses: {
    202: {
      description: 'They wait again.',
      schema: BatchRetryResource,
      headers: { Location: 'the address of the batch' },
    },
  },
  errors: ['BATCH_NOT_FOUND'],
  handle: async ({ params: { id }, query, services, caller }) => {
    const { batches } = services;
    await ownBatch(id, { services, caller });
    const result = await batches.retryFailed(id, { cancelled: query.cancelled === true });
    const batch = batchResource(await batches.get(id));
    return { status: 202, json: { ...result, batch }, headers: { Location: batch.links.self } };
  },
});

export const batchRoutes = [
  createBatch,
  listBatches,
  getBatch,
  listBatchItems,
  getBatchResults,
  cancelBatch,
  retryBatch,
];
