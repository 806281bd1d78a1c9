/** Jobs: adding, reading, cancelling and retrying them, and reading their results. */

import { WavepoolError } from '../../core/errors.ts';
import {
  CancelResource,
  IdempotencyHeaders,
  JobDeleteQuery,
  JobListQuery,
  JobPage,
  JobParams,
  JobRequest,
  JobResource,
  jobLinks,
  ResultQuery,
} from '../../core/http/api.ts';
import { decodeCursor, encodeCursor } from '../../core/job/job-cursor.ts';
import { JobResult } from '../../core/results/job-result.ts';
import {
  assertFormats,
  RESULT_MEDIA_TYPES,
  renderResult,
} from '../../core/results/result-formats.ts';
import { isUploadOwner, removeUploadOwner } from '../../queue/access/upload-owners.ts';
import { forgetUploadReferences, isUploadNeeded } from '../../queue/access/upload-references.ts';
import { readJobPage } from '../../queue/job-page.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import { tenantFor } from '../auth/caller.ts';
import { type CallContext, ownJob } from '../auth/own-work.ts';
import { logJob } from '../request/request-context.ts';
import { route } from '../request/route.ts';
import { jobResource } from '../resources/job-resource.ts';
import { readJobForm } from '../submit/receive-upload.ts';
import { submitJob } from '../submit/submit-job.ts';

const createJob = route({
  method: 'post',
  path: '/v1/jobs',
  name: 'createJob',
  tag: 'jobs',
  summary: 'Add a job',
  description:
    'The input is a path, an upload, a URL or an object; or send a form with the audio as `file`, and beside it the other members of a job request as fields of the form.',
  scope: 'submit',
  forTenants: true,
  headers: IdempotencyHeaders,
  body: JobRequest,
  consumes: ['application/json', 'multipart/form-data'],
  responses: {
    202: {
      description: 'Added, or added before under the same key.',
      schema: JobResource,
      headers: { Location: 'the address of the job' },
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
    'INPUT_TOO_LARGE',
    'INPUT_EMPTY',
    'MEDIA_TYPE_UNSUPPORTED',
    'STORAGE_FULL',
  ],
  handle: async ({ body, headers, req, res, services, caller, signal }) => {
    const request = body ?? (await readJobForm(req, { services, caller, signal }));
    const { view } = await submitJob(request, services, {
      caller,
      idempotencyKey: headers['idempotency-key'],
    });
    logJob(res, view.id);
    const { self } = jobLinks(view.id);
    return { status: 202, json: jobResource(view), headers: { Location: self } };
  },
});

const listJobs = route({
  method: 'get',
  path: '/v1/jobs',
  name: 'listJobs',
  tag: 'jobs',
  summary: 'Jobs, page by page',
  description:
    'Queue by queue: delayed jobs in their order, waiting ones, running ones, then failed and completed ones, the latest first. A job that stays in its state comes exactly once; one that moves on meanwhile may come again in its newer state.',
  scope: 'read',
  forTenants: true,
  query: JobListQuery,
  responses: { 200: { description: 'One page.', schema: JobPage } },
  errors: ['MODEL_UNKNOWN'],
  handle: async ({ query, services, caller }) => {
    const { cursor, ...filter } = query;
    const tenant = tenantFor(caller, query.tenant);
    const start = cursor === undefined ? undefined : decodeCursor(cursor);
    const { views, next } = await readJobPage(services.queues, {
      ...filter,
      tenant,
      cursor: start,
    });
    const nextCursor = next === undefined ? null : encodeCursor(next);
    return { status: 200, json: { items: views.map(jobResource), nextCursor } };
  },
});

const getJob = route({
  method: 'get',
  path: '/v1/jobs/:id',
  name: 'getJob',
  tag: 'jobs',
  summary: 'One job',
  scope: 'read',
  forTenants: true,
  params: JobParams,
  responses: { 200: { description: 'As it stands.', schema: JobResource } },
  errors: ['JOB_NOT_FOUND'],
  handle: async ({ params, services, caller, res }) => {
    logJob(res, params.id);
    const { view } = await ownJob(params.id, { services, caller });
    return { status: 200, json: jobResource(view) };
  },
});

const getResult = route({
  method: 'get',
  path: '/v1/jobs/:id/result',
  name: 'getResult',
  tag: 'jobs',
  summary: 'The result of a completed job',
  scope: 'read',
  forTenants: true,
  params: JobParams,
  query: ResultQuery,
  responses: {
    200: {
      description:
        'As JSON, or in another format of its task: text/plain, application/x-subrip or text/vtt by `format`.',
      schema: JobResult,
    },
    303: {
      description: 'With `redirect`: where the JSON is stored.',
      type: 'text/plain',
      headers: { Location: 'an address that anybody can read for some minutes' },
    },
  },
  errors: ['JOB_NOT_FOUND', 'JOB_NOT_FINISHED', 'RESULT_NOT_FOUND', 'STORAGE_UNAVAILABLE'],
  handle: async ({ params, query, services, caller, res }) => {
    logJob(res, params.id);
    const { view } = await ownJob(params.id, { services, caller });
    if (view.outcome === undefined) {
      throw new WavepoolError('JOB_NOT_FINISHED', `it is ${view.state}`);
    }
    const { format, redirect = false } = query;
    assertFormats(view.data.task, [format]);
    if (redirect && format !== 'json') {
      throw new WavepoolError('INVALID_REQUEST', 'redirect: only JSON is stored');
    }
    const link = redirect ? await services.results.link?.(view.outcome.resultKey) : undefined;
    if (link !== undefined) {
      return { status: 303, text: '', headers: { Location: link, 'Cache-Control': 'no-store' } };
    }
    const result = await services.results.read(view.outcome.resultKey);
    return { status: 200, text: renderResult(result, format), type: RESULT_MEDIA_TYPES[format] };
  },
});

const deleteJob = route({
  method: 'delete',
  path: '/v1/jobs/:id',
  name: 'cancelJob',
  tag: 'jobs',
  summary: 'Cancel a job; with `purge` forget it, too',
  description:
    'A waiting job ends at once, a running one soon. With `purge` the job, its transcript and its upload are forgotten; `purged` is false while it still runs: then ask again.',
  scope: 'submit',
  forTenants: true,
  params: JobParams,
  query: JobDeleteQuery,
  responses: {
    200: { description: 'It has ended.', schema: CancelResource },
    202: { description: 'Its worker was told.', schema: CancelResource },
  },
  errors: ['JOB_NOT_FOUND'],
  handle: async ({ params: { id }, query, services, caller, res, signal }) => {
    logJob(res, id);
    const found = await ownJob(id, { services, caller });
    const result = await found.queue.cancel(id);
    const purged = query.purge === true && (await forgetJob(found, { services, caller, signal }));
    const status = result === 'requested' && !purged ? 202 : 200;
    return { status, json: { id, result, purged } };
  },
});

/** How long to wait for a running job to stop. */
const STOP_WAIT_MS = 10_000;

/** Forgets an ended job, its result and its upload. Returns false when the job still runs. */
async function forgetJob(
  { queue, view }: FoundJob,
  context: CallContext & { readonly signal: AbortSignal },
): Promise<boolean> {
  const { services, signal } = context;
  const { id, data } = view;
  const ended = await hasEnded({ queue, view }, signal);
  if (!ended || !(await queue.remove(id))) return (await queue.get(id)) === undefined;
  // The worker gave the job up before it ended, so it writes nothing after this.
  await services.results.remove(services.results.keyOf(id));
  if (data.input.kind === 'upload') await forgetUpload(data.input.id, id, context);
  return true;
}

async function hasEnded({ queue, view }: FoundJob, signal: AbortSignal): Promise<boolean> {
  const late = AbortSignal.timeout(STOP_WAIT_MS);
  try {
    await queue.waitFor(view.id, AbortSignal.any([signal, late]));
    return true;
  } catch (error) {
    if (late.aborted) return false;
    signal.throwIfAborted();
    // A job that failed or was cancelled has ended, too.
    if (error instanceof WavepoolError && error.code !== 'REDIS_UNAVAILABLE') return true;
    throw error;
  }
}

/**
 * Removes the upload unless another job needs it. A tenant's key gives up the tenant's share of it; the bytes go when no
 * other tenant has sent them. A key without a tenant removes them for all.
 */
async function forgetUpload(
  uploadId: string,
  jobId: string,
  { services, caller }: CallContext,
): Promise<void> {
  const { queues, uploads } = services;
  if (await isUploadNeeded(queues, uploadId, jobId)) return;
  if (caller.tenant !== undefined) {
    const { connection } = queues;
    if (!(await isUploadOwner(connection, uploadId, caller.tenant))) return;
    if (!(await removeUploadOwner(connection, uploadId, caller.tenant))) return;
  }
  await uploads.remove(uploadId);
  await forgetUploadReferences(queues.connection, uploadId);
}

const retryJob = route({
  method: 'post',
  path: '/v1/jobs/:id/retry',
  name: 'retryJob',
  tag: 'jobs',
  summary: 'Run a failed or cancelled job once more',
  scope: 'submit',
  forTenants: true,
  params: JobParams,
  responses: {
    202: {
      description: 'It waits again.',
      schema: JobResource,
      headers: { Location: 'the address of the job' },
    },
  },
  errors: ['JOB_NOT_FOUND', 'JOB_NOT_RETRYABLE'],
  handle: async ({ params: { id }, services, caller, res }) => {
    logJob(res, id);
    const { queue, view } = await ownJob(id, { services, caller });
    if (!(await queue.retry(id)))
      throw new WavepoolError('JOB_NOT_RETRYABLE', `it is ${view.state}`);
    const { view: retried } = await services.queues.get(id);
    return { status: 202, json: jobResource(retried), headers: { Location: jobLinks(id).self } };
  },
});

export const jobRoutes = [createJob, listJobs, getJob, getResult, deleteJob, retryJob];
