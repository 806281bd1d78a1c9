/** What a tuning measured and chose, and what is said to the processes that measure. */
import { z } from 'zod';

/** How a model is laid out on a machine. */
export const Layout = z.strictObject({
  /** Worker processes. */
  workers: z.int().min(1).max(64),
  /** Sessions in each. */
  slots: z.int().min(1).max(16),
  /** Compute threads of each session. */
  threads: z.int().min(1).max(64),
});
export type Layout = z.infer<typeof Layout>;

export const TunedLayout = z.strictObject({ ...Layout.shape, batch: z.int().min(1).max(64) });
export type TunedLayout = z.infer<typeof TunedLayout>;

export const TuningMeasurement = z.strictObject({
  ...TunedLayout.shape,
  /** Seconds of audio per second, all processes together. */
  timesRealTime: z.number().nonnegative(),
});
export type TuningMeasurement = z.infer<typeof TuningMeasurement>;

/** A choice counts only where all of this is the same. */
export const TuningIdentity = z.strictObject({
  model: z.string(),
  checkpointSha256: z.string(),
  build: z.string(),
  cpu: z.string(),
  cores: z.int().min(1),
  memoryBytes: z.int().min(1),
  /** Slots that evidence admitted. */
  admitted: z.int().min(1),
  /** What was not free to choose. */
  fixed: TunedLayout.partial(),
});
export type TuningIdentity = z.infer<typeof TuningIdentity>;

export const TuningRecord = z.strictObject({
  version: z.literal(1),
  identity: TuningIdentity,
  measuredAt: z.iso.datetime(),
  chosen: TunedLayout,
  measured: z.array(TuningMeasurement).min(1),
});
export type TuningRecord = z.infer<typeof TuningRecord>;

/** One file per model: records of several machines may share a models directory. */
export const TuningFile = z.array(TuningRecord);

export const TuningRequest = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('open'),
    path: z.string().min(1),
    addonPath: z.string().min(1).optional(),
    slots: Layout.shape.slots,
    threads: Layout.shape.threads,
    maxBatch: TunedLayout.shape.batch,
  }),
  z.strictObject({
    type: z.literal('measure'),
    batch: TunedLayout.shape.batch,
    /** No batch is begun after so long. */
    durationMs: z.int().min(1),
  }),
]);
export type TuningRequest = z.infer<typeof TuningRequest>;

export const TuningAnswer = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('opened') }),
  z.strictObject({
    type: z.literal('measured'),
    audioSeconds: z.number().nonnegative(),
    wallSeconds: z.number().positive(),
  }),
  z.strictObject({ type: z.literal('failed'), code: z.string(), detail: z.string() }),
]);
export type TuningAnswer = z.infer<typeof TuningAnswer>;
