/**
 * Control of the models in workers: what is asked of a worker, and what each worker answers. A control job goes to one
 * worker; whoever asks the fleet sends one to each.
 */
import { z } from 'zod';
import { ModelId } from '../job/job.ts';
import { ModelState } from './status.ts';

/** How a model runs. What is left out keeps its value (merge), or its default (`replace`). */
export const ModelSettings = z.strictObject({
  /** Sessions over one set of weights; more than the evidence admits is refused. */
  slots: z.int().min(1).max(16).optional(),
  /** Most segments in one native batch. */
  batch: z.int().min(1).max(64).optional(),
  /** Compute threads per slot. */
  threads: z.int().min(1).max(64).optional(),
  /** Ceiling of the busy timeout in milliseconds; 0 = unbounded. */
  busyTimeoutMs: z.int().min(0).optional(),
  /** Longest wait of a segment for company, in milliseconds. */
  maxWaitMs: z.int().min(0).max(60_000).optional(),
});
export type ModelSettings = z.infer<typeof ModelSettings>;

/**
 * `retire-first` frees the old pool before the new one is made and needs no extra memory; when the new one fails, the
 * model is left unloaded with the new settings. `load-first` makes the new pool beside the old one and keeps the old one
 * when that fails.
 */
export const SwapStrategy = z.enum(['retire-first', 'load-first']);
export type SwapStrategy = z.infer<typeof SwapStrategy>;

export const ControlCommand = z.discriminatedUnion('operation', [
  /** Loads a model that is registered, or registers one whose weights are in the models directory and serves its queue. */
  z.strictObject({
    operation: z.literal('load'),
    model: ModelId,
    settings: ModelSettings.prefault({}),
  }),
  z.strictObject({ operation: z.literal('unload'), model: ModelId }),
  z.strictObject({
    operation: z.literal('reconfigure'),
    model: ModelId,
    settings: ModelSettings,
    /** Settings that are left out fall back to their defaults. */
    replace: z.boolean().default(false),
    strategy: SwapStrategy.default('retire-first'),
  }),
  z.strictObject({
    operation: z.literal('unload-many'),
    models: z.union([z.literal('all'), z.array(ModelId).min(1).max(256)]),
  }),
]);
export type ControlCommand = z.infer<typeof ControlCommand>;
export type ControlCommandInput = z.input<typeof ControlCommand>;

/** A model after the command, as that worker has it. */
export const ControlledModel = z.strictObject({
  id: ModelId,
  state: ModelState,
  loaded: z.boolean(),
  /** Whether a working pool was replaced. */
  reconfigured: z.boolean(),
  generation: z.int().nonnegative(),
});
export type ControlledModel = z.infer<typeof ControlledModel>;

const Answering = { worker: z.uuid(), host: z.string(), pid: z.int().min(1) };

/** What a worker did with a command. */
export const ControlResult = z.strictObject({
  models: z.array(ControlledModel),
  /** Asked for, but not registered with this worker. */
  notFound: z.array(ModelId),
});
export type ControlResult = z.infer<typeof ControlResult>;

/** What the control queue of a worker carries. */
export const ControlJob = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('command'), command: ControlCommand }),
  /** Whoever sent that command no longer waits: its wait for the model ends, what has begun is finished. */
  z.strictObject({ kind: z.literal('withdrawal'), id: z.uuid() }),
]);
export type ControlJob = z.infer<typeof ControlJob>;

/** What one worker did. `unload-many` names its models in the order in which they were freed. */
export const ControlOutcome = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    ...Answering,
    ...ControlResult.shape,
  }),
  z.strictObject({
    ok: z.literal(false),
    ...Answering,
    error: z.strictObject({ code: z.string(), message: z.string() }),
  }),
]);
export type ControlOutcome = z.infer<typeof ControlOutcome>;
