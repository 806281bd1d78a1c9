/** Finds jobs, batches and deliveries for a caller. For a tenant's key, those of other tenants do not exist. */

import { WavepoolError } from '../../core/errors.ts';
import type { BatchView } from '../../core/job/batch.ts';
import type { JobId, UploadId } from '../../core/job/job.ts';
import { isUploadOwner, NO_TENANT } from '../../queue/access/upload-owners.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { Services } from '../services.ts';
import { type Caller, maySee } from './caller.ts';

/** Who asks, and the services to answer with. */
export interface CallContext {
  readonly services: Services;
  readonly caller: Caller;
}

/** @throws {WavepoolError} JOB_NOT_FOUND, REDIS_UNAVAILABLE */
export async function ownJob(id: JobId, { services, caller }: CallContext): Promise<FoundJob> {
  const found = await services.queues.get(id);
  if (maySee(caller, found.view.data.tenant)) return found;
  throw new WavepoolError('JOB_NOT_FOUND', id);
}

/** @throws {WavepoolError} BATCH_NOT_FOUND, REDIS_UNAVAILABLE */
export async function ownBatch(id: string, { services, caller }: CallContext): Promise<BatchView> {
  const view = await services.batches.get(id);
  if (maySee(caller, view.tenant)) return view;
  throw new WavepoolError('BATCH_NOT_FOUND', id);
}

/** @throws {WavepoolError} DELIVERY_NOT_FOUND, REDIS_UNAVAILABLE */
export async function assertOwnDelivery(
  id: string,
  { services, caller }: CallContext,
): Promise<void> {
  if (caller.tenant === undefined) return;
  if (maySee(caller, await services.webhooks.deliveries.tenantOf(id))) return;
  throw new WavepoolError('DELIVERY_NOT_FOUND', id);
}

/** Whether the caller has sent these bytes. Knowing their hash is not enough to use them. */
export async function ownsUpload(
  id: UploadId,
  { services, caller }: CallContext,
): Promise<boolean> {
  if (caller.tenant === undefined) return true;
  return isUploadOwner(services.queues.connection, id, caller.tenant);
}

/** The owner under which an upload of the caller is noted. */
export function uploadOwner({ tenant }: Caller): string {
  return tenant ?? NO_TENANT;
}
