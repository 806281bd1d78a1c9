/**
 * Names in Redis. BullMQ's own keys are `wavepool:<queue>:…`; ours start with `wavepool-`, so that no queue can own them. On a
 * Cluster `{wavepool}` stands for `wavepool`, so that all keys are in one slot; hence each name is made for a connection.
 */
import type { Redis } from 'ioredis';
import { type ModelId, parseModelId } from '../../core/job/job.ts';
import { CLUSTER_PREFIX, isOnCluster } from './cluster-connector.ts';

/** The `prefix` of every BullMQ object. */
export function queuePrefix(redis: Redis): string {
  return isOnCluster(redis) ? CLUSTER_PREFIX : 'wavepool';
}

/**
 * The queue of a model. Queues that are no model's will have names that no model id can have.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function queueNameOf(model: ModelId): string {
  return parseModelId(model);
}

/** A key of BullMQ's, as documented in its architecture: state sets and lists, and one hash per job. */
export function bullKey(redis: Redis, queue: string, type: string): string {
  return `${queuePrefix(redis)}:${queue}:${type}`;
}

/** Where cancel requests for running jobs are published; the message is the job id. */
export function cancelChannel(redis: Redis, queue: string): string {
  return `${queuePrefix(redis)}-cancel:${queue}`;
}

/** Stands while a job is to be cancelled; holds the time at which that job was submitted. */
export function cancelMarkKey(redis: Redis, queue: string, jobId: string): string {
  return `${queuePrefix(redis)}-cancel:${queue}:${jobId}`;
}

/** Sorted set of `queue:job` by the time of the job's deadline. */
export function deadlinesKey(redis: Redis): string {
  return `${queuePrefix(redis)}-deadlines`;
}

/** Written to see whether Redis takes writes. */
export function readinessKey(redis: Redis): string {
  return `${queuePrefix(redis)}-readiness`;
}

/** Hash of the API keys' records by their ids. */
export function apiKeysKey(redis: Redis): string {
  return `${queuePrefix(redis)}-api-keys`;
}

/** A page's login, by the hash of its token. */
export function sessionKey(redis: Redis, tokenHash: string): string {
  return `${queuePrefix(redis)}-session:${tokenHash}`;
}

/** Which request an idempotency key was used for. */
export function idempotencyKey(redis: Redis, keyHash: string): string {
  return `${queuePrefix(redis)}-idempotency:${keyHash}`;
}

/** Set of the ids of jobs that refer to an upload. */
export function uploadJobsKey(redis: Redis, uploadId: string): string {
  return `${queuePrefix(redis)}-upload:${uploadId}`;
}

/** Set of the tenants that have sent an upload; who did so for none has no name. */
export function uploadOwnersKey(redis: Redis, uploadId: string): string {
  return `${queuePrefix(redis)}-upload-owners:${uploadId}`;
}

/** Sorted set of worker ids by the time of their last heartbeat. */
export function workersKey(redis: Redis): string {
  return `${queuePrefix(redis)}-workers`;
}

/** What a worker published last; gone soon after its last heartbeat. */
export function workerKey(redis: Redis, workerId: string): string {
  return `${queuePrefix(redis)}-workers:${workerId}`;
}

/** Set of the models that have had a job. */
export function modelsKey(redis: Redis): string {
  return `${queuePrefix(redis)}-models`;
}

/** The finished segments of one job, while they are of interest. */
export function segmentStreamKey(redis: Redis, queue: string, jobId: string): string {
  return `${queuePrefix(redis)}-segments:${queue}:${jobId}`;
}

/** The queue of the batches themselves; no model can have this name. */
export const BATCH_QUEUE = '_batches';

/** The job that keeps a batch from finishing while items are being added; no batch can have this name. */
export function batchGateId(batchId: string): string {
  return `${batchId}~gate`;
}

/** Hash of what changes about a batch, each field a time: `fedAt`, `closedAt`, `interruptedAt`, `cancelledAt`, `finishedAt`. */
export function batchTimesKey(redis: Redis, batchId: string): string {
  return `${queuePrefix(redis)}-batch:${batchId}`;
}

/** Sorted set of the ids of a batch's jobs in the order of submission. */
export function batchItemsKey(redis: Redis, batchId: string): string {
  return `${queuePrefix(redis)}-batch-items:${batchId}`;
}

/** Sorted set of the batches by the time of their creation. */
export function batchesKey(redis: Redis): string {
  return `${queuePrefix(redis)}-batches`;
}

/** Where one worker process takes commands about its models; no model can have this name. */
export function controlQueueOf(workerId: string): string {
  return `_control-${workerId}`;
}

/** Sorted set of the ids of workers that were sent a command, by the time of the last one. */
export function controlQueuesKey(redis: Redis): string {
  return `${queuePrefix(redis)}-control-queues`;
}

/** Where a process listens for what concerns its live streams: a worker, or a server. */
export function liveChannel(redis: Redis, listener: string): string {
  return `${queuePrefix(redis)}-live:${listener}`;
}

/** Sorted set of the live streams of one caller, by the time at which each is taken for gone. */
export function liveStreamsKey(redis: Redis, caller: string): string {
  return `${queuePrefix(redis)}-live-streams:${caller}`;
}

/** Where parts of this model's split jobs wait; no model can have this name, so they are in nobody's lists and counts. */
export function partQueueOf(model: ModelId): string {
  return `_parts-${parseModelId(model)}`;
}

/** Set of the parts of one job that may be there. */
export function jobPartsKey(redis: Redis, queue: string, jobId: string): string {
  return `${queuePrefix(redis)}-parts:${queue}:${jobId}`;
}

/** The queue of the deliveries of webhooks; no model can have this name. */
export const WEBHOOK_QUEUE = '_webhooks';

/** Sorted set of the jobs of a queue that have a webhook and have not been seen to end, by the time they were added. */
export function webhookJobsKey(redis: Redis, queue: string): string {
  return `${queuePrefix(redis)}-webhook-jobs:${queue}`;
}

/** Hash of the places up to which the event streams of queues have been looked at for ends to tell. */
export function webhookCursorsKey(redis: Redis): string {
  return `${queuePrefix(redis)}-webhook-cursors`;
}

/** Held by the process whose turn it is to look. */
export function webhookTurnKey(redis: Redis): string {
  return `${queuePrefix(redis)}-webhook-turn`;
}

/** Hash of the secrets by tenant; the server's own has no name. */
export function webhookSecretsKey(redis: Redis): string {
  return `${queuePrefix(redis)}-webhook-secrets`;
}

/** Sorted set of the ids of deliveries about a job or a batch, by the time they were made. */
export function webhookDeliveriesKey(redis: Redis, subject: string): string {
  return `${queuePrefix(redis)}-webhook-deliveries:${subject}`;
}

/** Hash of what operators say of tenants. In the slot of the queues, whose scripts read it. */
export function tenantRulesKey(redis: Redis): string {
  return bullKey(redis, '_tenants', 'rules');
}

/** Keys of a queue's fair share. No job id begins with `_`, and all are in the queue's slot. */
export function fairShareKeys(redis: Redis, queue: string) {
  return {
    /** Sorted set of tenants by the virtual time at which their next job is due. */
    clocks: bullKey(redis, queue, '_clocks'),
    /** Set of tenants that may have jobs in a window or in staging. */
    tenants: bullKey(redis, queue, '_tenants'),
    /** Numbers jobs in the order in which they were seen. */
    counter: bullKey(redis, queue, '_counter'),
    rules: tenantRulesKey(redis),
  };
}

/** The queue in which schedules come due; no model can have this name. */
export const SCHEDULE_QUEUE = '_schedules';
