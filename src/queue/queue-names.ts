/** Names in Redis. BullMQ's own keys are `wavepool:<queue>:…`; ours start with `wavepool-`, so that no queue can own them. */
import { type ModelId, parseModelId } from '../core/job.ts';

/** The `prefix` of every BullMQ object. */
export const QUEUE_PREFIX = 'wavepool';

/**
 * The queue of a model. Queues that are no model's will have names that no model id can have.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function queueNameOf(model: ModelId): string {
  return parseModelId(model);
}

/** A key of BullMQ's, as documented in its architecture: state sets and lists, and one hash per job. */
export function bullKey(queue: string, type: string): string {
  return `${QUEUE_PREFIX}:${queue}:${type}`;
}

/** Where cancel requests for running jobs are published; the message is the job id. */
export function cancelChannel(queue: string): string {
  return `wavepool-cancel:${queue}`;
}

/** Stands while a job is to be cancelled; holds the time at which that job was submitted. */
export function cancelMarkKey(queue: string, jobId: string): string {
  return `wavepool-cancel:${queue}:${jobId}`;
}

/** Sorted set of `queue:job` by the time of the job's deadline. */
export const DEADLINES_KEY = 'wavepool-deadlines';

/** Written to see whether Redis takes writes. */
export const READINESS_KEY = 'wavepool-readiness';

/** Hash of the API keys' records by their ids. */
export const API_KEYS_KEY = 'wavepool-api-keys';

/** A page's login, by the hash of its token. */
export function sessionKey(tokenHash: string): string {
  return `wavepool-session:${tokenHash}`;
}

/** Which request an idempotency key was used for. */
export function idempotencyKey(keyHash: string): string {
  return `wavepool-idempotency:${keyHash}`;
}

/** Set of the ids of jobs that refer to an upload. */
export function uploadJobsKey(uploadId: string): string {
  return `wavepool-upload:${uploadId}`;
}

/** Sorted set of worker ids by the time of their last heartbeat. */
export const WORKERS_KEY = 'wavepool-workers';

/** What a worker published last; gone soon after its last heartbeat. */
export function workerKey(workerId: string): string {
  return `wavepool-workers:${workerId}`;
}

/** Set of the models that have had a job. */
export const MODELS_KEY = 'wavepool-models';

/** The finished segments of one job, while they are of interest. */
export function segmentStreamKey(queue: string, jobId: string): string {
  return `wavepool-segments:${queue}:${jobId}`;
}

/** The queue of the batches themselves; no model can have this name. */
export const BATCH_QUEUE = '_batches';

/** The job that keeps a batch from finishing while items are being added; no batch can have this name. */
export function batchGateId(batchId: string): string {
  return `${batchId}~gate`;
}

/** Hash of what changes about a batch, each field a time: `fedAt`, `closedAt`, `interruptedAt`, `cancelledAt`, `finishedAt`. */
export function batchTimesKey(batchId: string): string {
  return `wavepool-batch:${batchId}`;
}

/** Sorted set of the ids of a batch's jobs in the order of submission. */
export function batchItemsKey(batchId: string): string {
  return `wavepool-batch-items:${batchId}`;
}

/** Sorted set of the batches by the time of their creation. */
export const BATCHES_KEY = 'wavepool-batches';

/** Where one worker process takes commands about its models; no model can have this name. */
export function controlQueueOf(workerId: string): string {
  return `_control-${workerId}`;
}

/** Sorted set of the ids of workers that were sent a command, by the time of the last one. */
export const CONTROL_QUEUES_KEY = 'wavepool-control-queues';

/** Where a process listens for what concerns its live streams: a worker, or a server. */
export function liveChannel(listener: string): string {
  return `wavepool-live:${listener}`;
}

/** Sorted set of the live streams of one caller, by the time at which each is taken for gone. */
export function liveStreamsKey(caller: string): string {
  return `wavepool-live-streams:${caller}`;
}

/** Where parts of this model's split jobs wait; no model can have this name, so they are in nobody's lists and counts. */
export function partQueueOf(model: ModelId): string {
  return `_parts-${parseModelId(model)}`;
}

/** Set of the parts of one job that may be there. */
export function jobPartsKey(queue: string, jobId: string): string {
  return `wavepool-parts:${queue}:${jobId}`;
}

/** The queue of the deliveries of webhooks; no model can have this name. */
export const WEBHOOK_QUEUE = '_webhooks';

/** Sorted set of the jobs of a queue that have a webhook and have not been seen to end, by the time they were added. */
export function webhookJobsKey(queue: string): string {
  return `wavepool-webhook-jobs:${queue}`;
}

/** Hash of the places up to which the event streams of queues have been looked at for ends to tell. */
export const WEBHOOK_CURSORS_KEY = 'wavepool-webhook-cursors';

/** Held by the process whose turn it is to look. */
export const WEBHOOK_TURN_KEY = 'wavepool-webhook-turn';

/** Hash of the secrets by tenant; the server's own has no name. */
export const WEBHOOK_SECRETS_KEY = 'wavepool-webhook-secrets';

/** Sorted set of the ids of deliveries about a job or a batch, by the time they were made. */
export function webhookDeliveriesKey(subject: string): string {
  return `wavepool-webhook-deliveries:${subject}`;
}

/** Hash of what operators say of tenants. In the slot of the queues, whose scripts read it. */
export const TENANT_RULES_KEY = bullKey('_tenants', 'rules');

/** Keys of a queue's fair share. No job id begins with `_`, and all are in the queue's slot. */
export function fairShareKeys(queue: string) {
  return {
    /** Sorted set of tenants by the virtual time at which their next job is due. */
    clocks: bullKey(queue, '_clocks'),
    /** Set of tenants that may have jobs in a window or in staging. */
    tenants: bullKey(queue, '_tenants'),
    /** Numbers jobs in the order in which they were seen. */
    counter: bullKey(queue, '_counter'),
    rules: TENANT_RULES_KEY,
  };
}

/** The queue in which schedules come due; no model can have this name. */
export const SCHEDULE_QUEUE = '_schedules';
