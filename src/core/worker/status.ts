/** What a worker publishes about itself and its models. One snapshot is taken in one turn, so its fields belong together. */
import { z } from 'zod';
import { ModelId } from '../job/job.ts';

const Count = z.int().nonnegative();
const Amount = z.number().nonnegative();

/** Only a manager that holds the whole model, or a request's load, changes it. `failed` loads again when asked. */
export const ModelState = z.enum([
  'unloaded',
  'loading',
  'ready',
  'failed',
  'reconfiguring',
  'unloading',
]);
export type ModelState = z.infer<typeof ModelState>;

export const BatchStats = z.strictObject({
  /** Segments that wait for a slot. */
  queuedItems: Count,
  queuedSeconds: Amount,
  runningBatches: Count,
  runningItems: Count,
  /** Element i counts the batches of i + 1 items that have ended. */
  batchSizes: z.array(Count),
  completedItems: Count,
  failedItems: Count,
  cancelledItems: Count,
  /** Audio of the completed items. */
  audioSeconds: Amount,
  /** Time that batches have held slots, summed over the slots. */
  busyMs: Amount,
});
export type BatchStats = z.infer<typeof BatchStats>;

export const ModelStatus = z.strictObject({
  id: z.string(),
  path: z.string(),
  state: ModelState,
  /** Raised by each publication of a loaded model; 0 = never loaded. */
  generation: Count,
  /** Why the last load failed; null in every state but `failed`. */
  failure: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  /** Known while the model is loaded. */
  family: z.string().nullable(),
  task: z.string().nullable(),
  /** ISO 639-1, what it recognizes; known while the model is loaded. */
  languages: z.array(z.string()).nullable().default(null),
  /** What a job may ask of it (docs/api.md); known while the model is loaded. */
  optionNames: z.array(z.string()).nullable().default(null),
  mode: z.enum(['offline', 'streaming']),
  /** Logical residency: false from the start of an unload, though memory is freed at its end. */
  loaded: z.boolean(),
  /** Pools and abandoned loads of this model that are still to be freed: physical memory, beside `loaded`. */
  leaving: Count,
  /** Since the last load or run; null while `loaded` is false. */
  idleMs: Amount.nullable(),
  /** Configured count. */
  slots: z.int().min(1),
  /** Occupied request slots; an exclusive holder does not count. */
  activeSlots: Count,
  /** Whether a manager holds the model. */
  exclusive: z.boolean(),
  /** Waiting requests only; each segment in the batcher is one. */
  queuedRequests: Count,
  waitingManagers: Count,
  /** What the loaded pool advertises (may exceed `slots`); null while `loaded` is false. */
  maxParallelSlots: z.int().min(1).nullable(),
  weightBytes: Count.nullable(),
  /** By slot. */
  sessionBytes: z.array(Count).nullable(),
  batches: BatchStats,
});
export type ModelStatus = z.infer<typeof ModelStatus>;

export const RuntimeStatus = z.strictObject({
  /** Build identity of the native code. */
  build: z.string(),
  models: z.array(ModelStatus),
});
export type RuntimeStatus = z.infer<typeof RuntimeStatus>;

export const ServedModel = z.strictObject({
  id: ModelId,
  slots: z.int().min(1),
  /** Most segments in one native batch. */
  batch: z.int().min(1),
});
export type ServedModel = z.infer<typeof ServedModel>;

/** A running worker process. Times are milliseconds since 1970, by its own machine's clock. */
export const WorkerPresence = z.strictObject({
  /** Random; a worker that is started again has another. */
  id: z.uuid(),
  pid: z.int().min(1),
  host: z.string(),
  startedAt: Count,
  /** Of the package. */
  version: z.string(),
  /** The models whose queues it serves. */
  models: z.array(ServedModel),
  /** The native build, and every model in memory: the speech detector's, too. */
  runtime: RuntimeStatus,
  heldJobs: Count,
  /** Slot counts up to this one are taken without evidence; 0 = none but 1. */
  unvalidatedSlots: Count.default(0),
  /** Of the whole process. */
  residentBytes: Count,
  updatedAt: Count,
});
export type WorkerPresence = z.infer<typeof WorkerPresence>;

/** The presence that a worker published, or nothing for one of another version. */
export function parseWorkerPresence(raw: unknown): WorkerPresence | undefined {
  return WorkerPresence.safeParse(raw).data;
}
