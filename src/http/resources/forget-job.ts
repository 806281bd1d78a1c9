/** Forgets a job: itself, its transcript, and its upload when no other job needs that. */
import { WavepoolError } from '../../core/errors.ts';
import { isUploadOwner, removeUploadOwner } from '../../queue/access/upload-owners.ts';
import { forgetUploadReferences, isUploadNeeded } from '../../queue/access/upload-references.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { CallContext } from '../auth/own-work.ts';

/** How long a running job is waited for that has been told to stop. */
const STOP_WAIT_MS = 10_000;

/** False when the job runs on for now: ask again. */
export async function forgetJob(
  { queue, view }: FoundJob,
  context: CallContext & { readonly signal: AbortSignal },
): Promise<boolean> {
  const { services, signal } = context;
  const { id, data } = view;
  const ended = await endOf({ queue, view }, signal);
  if (!ended || !(await queue.remove(id))) return (await queue.get(id)) === undefined;
  // Its worker gave up the job before it ended, so nothing is written after this.
  await services.results.remove(services.results.keyOf(id));
  if (data.input.kind === 'upload') await forgetUpload(data.input.id, id, context);
  return true;
}

async function endOf({ queue, view }: FoundJob, signal: AbortSignal): Promise<boolean> {
  const late = AbortSignal.timeout(STOP_WAIT_MS);
  try {
    await queue.waitFor(view.id, AbortSignal.any([signal, late]));
    return true;
  } catch (error) {
    if (late.aborted) return false;
    signal.throwIfAborted();
    // However it ended, it has ended.
    if (error instanceof WavepoolError && error.code !== 'REDIS_UNAVAILABLE') return true;
    throw error;
  }
}

/** Bytes that others have sent, too, are theirs as well. Whoever is no tenant decides for all. */
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
