/** What is said between `wavepool models validate` and the fresh process that runs one start of the procedure. */
import { z } from 'zod';
import { ModelId } from '../job/job.ts';
import { EvidenceMode, MemorySample, StartPhase, Throughput } from './evidence.ts';

/** A stretch of a fixture, in samples of 16 kHz. */
export const StartItem = z.strictObject({
  /** A file. */
  path: z.string().min(1),
  startSample: z.int().nonnegative(),
  endSample: z.int().min(1),
});
export type StartItem = z.infer<typeof StartItem>;

/** Indexes of items that one slot gets at once: a native batch, a single request, or a stream. */
export const StartGroup = z.array(z.int().nonnegative()).min(1);
export type StartGroup = z.infer<typeof StartGroup>;

/** What is released together onto the slots. */
export const StartWave = z.array(StartGroup).min(1);
export type StartWave = z.infer<typeof StartWave>;

/** One start, with everything decided: nothing is left to chance or to the worker. */
export const StartPlan = z.strictObject({
  model: z.strictObject({ id: ModelId, path: z.string().min(1) }),
  addonPath: z.string().min(1).optional(),
  mode: EvidenceMode,
  /** Requests carry a state of the loaded model, so the first of them wait for the load. */
  stateful: z.boolean(),
  slots: z.int().min(1).max(16),
  threads: z.int().min(1),
  batch: z.int().min(1),
  items: z.array(StartItem).min(1),
  /** The groups whose first execution after a load is known from one slot. */
  coldGroups: z.array(StartGroup).min(1),
  /** Of `coldGroups`, one for each slot. */
  cold: z.array(z.int().nonnegative()).min(1),
  warm: z.array(StartWave).min(1),
  /** Warm waves after the reload. */
  again: z.array(StartWave),
});
export type StartPlan = z.infer<typeof StartPlan>;

/** The result of one item, as it is compared. */
export const ItemOutcome = z.strictObject({
  phase: StartPhase,
  /** Within the phase. */
  wave: z.int().nonnegative(),
  item: z.int().nonnegative(),
  /** The cold group it was in, for a first execution after a load. */
  coldGroup: z.int().nonnegative().optional(),
  slot: z.int().nonnegative().optional(),
  /** SHA-256 over everything of the result; the code for an error. */
  result: z.string(),
  /** For people: the words, or the message of an error. */
  text: z.string(),
});
export type ItemOutcome = z.infer<typeof ItemOutcome>;

/** Something other than a result that had to be so. */
export const StartCheck = z.strictObject({
  /** The entry of the procedure that asks for it. */
  entry: z.string().regex(/^M[1-6]$/),
  name: z.string(),
  ok: z.boolean(),
  observed: z.string(),
});
export type StartCheck = z.infer<typeof StartCheck>;

export const StartReport = z.strictObject({
  startedAt: z.iso.datetime(),
  /** Cold, warm and reloaded ones. */
  waves: z.int().nonnegative(),
  outcomes: z.array(ItemOutcome),
  checks: z.array(StartCheck),
  memory: z.array(MemorySample),
  activeLeases: z.int().nonnegative(),
  /** Of the warm waves. */
  throughput: Throughput,
});
export type StartReport = z.infer<typeof StartReport>;

/** How a start ended: with a report, or before it. */
export const StartEnd = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('finished'), report: StartReport }),
  z.strictObject({
    kind: z.literal('broken'),
    startedAt: z.iso.datetime(),
    phase: StartPhase,
    wave: z.int().nonnegative(),
    status: z.enum(['FAIL', 'BLOCKED', 'UNSUPPORTED']),
    reason: z.string(),
  }),
]);
export type StartEnd = z.infer<typeof StartEnd>;

/** A start that has ended, kept so that an interrupted validation goes on where it was. */
export const StoredStart = z.strictObject({
  /** Over the procedure, the identity and the plan: a start counts for nothing else. */
  key: z.string(),
  end: StartEnd,
});
export type StoredStart = z.infer<typeof StoredStart>;

/** What the model and the build say about themselves, asked in a process that does nothing else. */
export const ModelProbe = z.strictObject({
  build: z.strictObject({
    identity: z.string().min(1),
    ggml: z.string(),
    compiler: z.string(),
    flags: z.string(),
    backend: z.string().min(1),
  }),
  family: z.string(),
  task: z.string(),
  nativeBatch: z.boolean(),
  stateful: z.boolean(),
  maxSegmentSeconds: z.number(),
  windowSamples: z.int().nonnegative(),
  weightBytes: z.int().nonnegative(),
  /** Of one session before its first request: the least that a slot costs. */
  sessionBytes: z.int().nonnegative(),
  /** Sessions that the family advertises for the mode; 0 when it does not offer the mode, with the reason. */
  capacity: z.int().nonnegative(),
  refusal: z.string().optional(),
});
export type ModelProbe = z.infer<typeof ModelProbe>;

export const ProbeRequest = z.strictObject({
  path: z.string().min(1),
  addonPath: z.string().min(1).optional(),
  mode: EvidenceMode,
  threads: z.int().min(1),
  batch: z.int().min(1),
});
export type ProbeRequest = z.infer<typeof ProbeRequest>;

export const ValidationRequest = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('probe'), request: ProbeRequest }),
  z.strictObject({ type: z.literal('start'), plan: StartPlan }),
]);
export type ValidationRequest = z.infer<typeof ValidationRequest>;

export const ValidationMessage = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('phase'), phase: StartPhase, wave: z.int().nonnegative() }),
  z.strictObject({ type: z.literal('probed'), probe: ModelProbe }),
  z.strictObject({ type: z.literal('report'), report: StartReport }),
  z.strictObject({ type: z.literal('failed'), code: z.string(), detail: z.string() }),
]);
export type ValidationMessage = z.infer<typeof ValidationMessage>;

/** The message, or nothing for one of another version or sender. */
export function parseValidationRequest(raw: unknown): ValidationRequest | undefined {
  return ValidationRequest.safeParse(raw).data;
}

/** The message, or nothing for one of another version or sender. */
export function parseValidationMessage(raw: unknown): ValidationMessage | undefined {
  return ValidationMessage.safeParse(raw).data;
}

/** A stored start; undefined for anything else. */
export function parseStoredStart(raw: unknown): StoredStart | undefined {
  return StoredStart.safeParse(raw).data;
}
