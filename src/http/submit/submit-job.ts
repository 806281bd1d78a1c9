/** Adds a job for a checked request. */
import { randomUUID } from 'node:crypto';
import { basename } from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import type { JobRequest, JobRequestInput, JobSettings } from '../../core/http/api.ts';
import type { JobInput, NewJob, OmitEach } from '../../core/job/job.ts';
import { assertInsideRoots, parseObjectAddress } from '../../core/s3-settings.ts';
import { addUploadReferences } from '../../queue/access/upload-references.ts';
import { claimIdempotencyKey } from '../../queue/jobs/idempotency.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import { type Caller, tenantFor } from '../auth/caller.ts';
import { type CallContext, ownsUpload } from '../auth/own-work.ts';
import type { Services } from '../services.ts';
import { resolveAllowedPath } from './allowed-path.ts';
import { cleanName } from './form.ts';
import { queueForTask } from './task-queue.ts';

const DEFAULT_TENANT = 'default';

export interface SubmitOptions {
  readonly caller: Caller;
  /** A request with the same key and content gives the same job. */
  readonly idempotencyKey?: string | undefined;
  /** Whether a client waits for the result; see `NewJob`. @defaultValue false */
  readonly interactive?: boolean | undefined;
}

/**
 * Adds the job, or finds the one that the same request added before.
 * @throws {WavepoolError} MODEL_UNKNOWN, TASK_UNSUPPORTED, QUEUE_FULL, IDEMPOTENCY_CONFLICT, REDIS_UNAVAILABLE; see `resolveRequestInput`
 */
export async function submitJob(
  asked: JobRequest,
  services: Services,
  { caller, idempotencyKey, interactive }: SubmitOptions,
): Promise<FoundJob> {
  const { queues, limit } = services;
  const request = withTenant(asked, caller);
  const { input: requested, ...settings } = request;
  const queue = await queueForTask(settings, services);
  const input = await resolveRequestInput(requested, { services, caller });
  let id: string = randomUUID();
  if (idempotencyKey !== undefined) {
    const content = { ...request, model: queue.model };
    const claim = { caller: caller.id, key: idempotencyKey, content };
    id = await claimIdempotencyKey(queues.connection, claim);
    const earlier = await queue.get(id);
    if (earlier !== undefined) return { queue, view: earlier };
  }
  await limit.reserve(queue, 1);
  await referToUploads([{ id, input }], services);
  const view = await queue.submit({ ...newJob(settings, services.now()), id, input, interactive });
  return { queue, view };
}

/**
 * Sets the tenant that the request is for. The member keeps its place, because an idempotency key depends on the order.
 * @throws {WavepoolError} FORBIDDEN
 */
export function withTenant<Settings extends { readonly tenant: string | null }>(
  settings: Settings,
  caller: Caller,
): Settings & { readonly tenant: string } {
  return { ...settings, tenant: tenantFor(caller, settings.tenant) ?? DEFAULT_TENANT };
}

/** The common part of the jobs of one request, for `AudioQueue.add`. */
export function newJob(
  settings: JobSettings & { readonly tenant: string },
  now: number,
): OmitEach<NewJob, 'id' | 'input'> {
  const { model: _, busyTimeoutMs, timeoutMs, deadlineMs, ...job } = settings;
  const deadline = deadlineMs === undefined ? {} : { deadlineAt: now + deadlineMs };
  return { ...job, clocks: { busyTimeoutMs, timeoutMs, ...deadline } };
}

/** Notes which uploads the new jobs need, so that these are not removed. */
export async function referToUploads(
  jobs: readonly { readonly id: string; readonly input: JobInput }[],
  { queues }: Services,
): Promise<void> {
  const references = jobs.flatMap(({ id, input }) =>
    input.kind === 'upload' ? [{ uploadId: input.id, jobId: id }] : [],
  );
  await addUploadReferences(queues.connection, references);
}

/**
 * Checks the input of a request, and returns it in the form in which the worker gets it.
 * @throws {WavepoolError} INPUT_FORBIDDEN, INPUT_NOT_FOUND, INVALID_REQUEST
 */
export async function resolveRequestInput(
  { path, uploadId, url, object, name, rawFormat }: JobRequestInput,
  { services, caller }: CallContext,
): Promise<JobInput> {
  const { uploads, settings } = services;
  const format = rawFormat === undefined ? {} : { rawFormat };
  if (path !== undefined) {
    return { kind: 'path', path: await resolveAllowedPath(path, settings.inputRoots), ...format };
  }
  if (uploadId !== undefined) {
    if (!(await ownsUpload(uploadId, { services, caller }))) {
      throw new WavepoolError('INPUT_NOT_FOUND', `upload ${uploadId}`);
    }
    await uploads.use(uploadId);
    return { kind: 'upload', id: uploadId, name: cleanName(name ?? ''), ...format };
  }
  if (object !== undefined) {
    const address = parseObjectAddress(object);
    assertInsideRoots(address, settings.objectRoots);
    return { kind: 'object', ...address, ...format };
  }
  const address = url ?? '';
  return { kind: 'url', url: address, name: cleanName(name ?? nameInUrl(address)), ...format };
}

function nameInUrl(url: string): string {
  const last = basename(new URL(url).pathname);
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}
