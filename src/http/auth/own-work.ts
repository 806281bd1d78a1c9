/** What a caller may know of: with a tenant's key, nothing but that tenant's; what is others' is as if it were not there. */

import { WavepoolError } from '../../core/errors.ts';
import type { BatchView } from '../../core/job/batch.ts';
import type { JobId, UploadId } from '../../core/job/job.ts';
import { isUploadOwner, NO_TENANT } from '../../queue/access/upload-owners.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { Services } from '../services.ts';
import { type Caller, maySee } from './caller.ts';

/** What every request has. */
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

/** Whether the caller has sent these bytes: to know their hash is not to have them. */
export async function ownsUpload(
  id: UploadId,
  { services, caller }: CallContext,
): Promise<boolean> {
  if (caller.tenant === undefined) return true;
  return isUploadOwner(services.queues.connection, id, caller.tenant);
}

/** On whose behalf an upload of the caller is kept. */
export function uploadOwner({ tenant }: Caller): string {
  return tenant ?? NO_TENANT;
}
