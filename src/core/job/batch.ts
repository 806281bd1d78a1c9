/** A batch: many jobs of one model that are submitted, watched, cancelled and retried as one thing. */
import { z } from 'zod';
import { parse } from '../parse.ts';
import { BatchWebhook } from '../webhook.ts';
import { JobId, JobTask, ModelId } from './job.ts';

/** Batches lie in a queue as jobs do, and their ids follow the same rules. */
export const BatchId = JobId;
export type BatchId = z.infer<typeof BatchId>;

/**
 * What tells an item of a batch from the others; the same key means the same item when a submission goes on. Whole numbers
 * are the keys of items that come without one.
 */
export const ItemKey = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,64}$/, 'an item key is A-Z, a-z, 0-9, ".", "_", "-", at most 64')
  .refine((key) => !/^\d+$/.test(key), 'an item key is not a whole number');
export type ItemKey = z.infer<typeof ItemKey>;

/**
 * `open`: its producer still adds items. `running`: it has all its items and some have not ended. `completed`: all have
 * ended, however they did. `cancelled`: somebody asked for that; items that run may take a while to end.
 */
export const BatchState = z.enum(['open', 'running', 'completed', 'cancelled']);
export type BatchState = z.infer<typeof BatchState>;

const Count = z.int().min(0);

/** Taken in one moment: the others add up to `total`. */
export const BatchCounts = z.strictObject({
  total: Count,
  /** Delayed ones included. */
  waiting: Count,
  running: Count,
  completed: Count,
  /** Cancelled ones not included. */
  failed: Count,
  cancelled: Count,
});
export type BatchCounts = z.infer<typeof BatchCounts>;

/** Holds as long as the batch. */
export const BatchRecord = z.strictObject({
  /** For people. */
  name: z.string().min(1).max(255).optional(),
  tenant: z.string().min(1).max(128),
  model: ModelId,
  /** Of all its jobs. */
  task: JobTask.default('transcribe'),
  /** The folder whose files are its inputs. */
  directory: z.string().optional(),
  /** Told when all items have ended. */
  webhook: BatchWebhook.optional(),
  /** Ids of its jobs start with it: a later batch of the same id shares neither jobs nor results. */
  jobPrefix: z.string().regex(/^b[0-9a-f]{16}$/),
  /** Milliseconds since 1970. */
  createdAt: z.int().min(0),
});
export type BatchRecord = z.infer<typeof BatchRecord>;

/** A batch as a reader sees it. */
export interface BatchView extends BatchRecord {
  readonly id: BatchId;
  readonly state: BatchState;
  readonly counts: BatchCounts;
  /** Its producer was not heard of for too long, and the batch went on with the items that it had. */
  readonly interrupted: boolean;
  /** When its last item ended; milliseconds since 1970. */
  readonly finishedAt: number | undefined;
}

/**
 * `batch.opened`: it is there and takes items. `batch.closed`: it has all its items. `batch.cancelled`: waiting items have
 * ended, running ones end soon. `batch.retried`: items that had ended wait again. `batch.finished`: all items have ended,
 * which may happen again after a retry.
 */
export const BatchChange = z.enum([
  'batch.opened',
  'batch.closed',
  'batch.cancelled',
  'batch.retried',
  'batch.finished',
]);
export type BatchChange = z.infer<typeof BatchChange>;

/** How a batch stands after a change. */
export const BatchStanding = z.strictObject({
  batchId: BatchId,
  tenant: BatchRecord.shape.tenant,
  state: BatchState,
  counts: BatchCounts,
  /** Null also when all items have ended, until somebody wrote it down. */
  finishedAt: z.iso.datetime().nullable(),
});
export type BatchStanding = z.infer<typeof BatchStanding>;

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseBatchId(raw: unknown): BatchId {
  return parse(BatchId, raw, `batch id ${JSON.stringify(raw)}`);
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseItemKey(raw: unknown): ItemKey {
  return parse(ItemKey, raw, `item key ${JSON.stringify(raw)}`);
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseBatchRecord(raw: unknown): BatchRecord {
  return parse(BatchRecord, raw, `batch ${JSON.stringify(raw)}`);
}

export function batchStanding(view: BatchView): BatchStanding {
  const { id: batchId, tenant, state, counts, finishedAt } = view;
  const finished = finishedAt === undefined ? null : new Date(finishedAt).toISOString();
  return { batchId, tenant, state, counts, finishedAt: finished };
}
