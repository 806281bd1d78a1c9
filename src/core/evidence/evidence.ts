/**
 * Evidence: what was proven about a model on one build, and what that admits. The validation procedure writes it, workers
 * read it; nothing else admits more than one slot.
 */
import { z } from 'zod';
import { ModelId } from '../job/job.ts';

/** Raised whenever the procedure asks for more than before: older evidence then admits nothing. */
export const PROCEDURE_VERSION = 1;

export const EvidenceStatus = z.enum([
  'PASS',
  'FAIL',
  /** Not run yet, or interrupted. */
  'PENDING',
  /** Could not be run here, such as for want of memory. */
  'BLOCKED',
  /** The model or backend does not offer what the entry is about. */
  'UNSUPPORTED',
  /** Nothing to show, with the reason. */
  'NOT_APPLICABLE',
]);
export type EvidenceStatus = z.infer<typeof EvidenceStatus>;

/** How a model is used: `batch` means concurrent native batches of several items. */
export const EvidenceMode = z.enum(['offline', 'batch', 'streaming']);
export type EvidenceMode = z.infer<typeof EvidenceMode>;

/** One demand of the procedure (M1…M6, F1…F6) and how it ended. */
export const EvidenceEntry = z.strictObject({
  id: z.string().regex(/^[MF][1-6]$/),
  status: EvidenceStatus,
  /** Why, for everything but PASS; what was found for FAIL. */
  reason: z.string().optional(),
  /** What was seen, in sentences with figures. */
  observed: z.array(z.string()),
});
export type EvidenceEntry = z.infer<typeof EvidenceEntry>;

/** What was run, so that it can be repeated exactly. */
export const EvidenceManifest = z.strictObject({
  threads: z.int().min(1),
  /** Most items of one native batch; 1 in the modes without. Evidence covers smaller batches, too. */
  batch: z.int().min(1),
  seed: z.int(),
  ggml: z.string(),
  compiler: z.string(),
  flags: z.string(),
  items: z.array(
    z.strictObject({
      fixture: z.string(),
      sha256: z.string(),
      startSample: z.int().nonnegative(),
      endSample: z.int().min(1),
    }),
  ),
});
export type EvidenceManifest = z.infer<typeof EvidenceManifest>;

/** What evidence is about; it counts for nothing that differs in any of these. */
export const EvidenceIdentity = z.strictObject({
  model: ModelId,
  /** Of the weights file. */
  checkpointSha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** Native sources, ggml version, flags, compiler and kernel path. */
  build: z.string().min(1),
  backend: z.string().min(1),
  family: z.string().min(1),
  task: z.string().min(1),
  mode: EvidenceMode,
});
export type EvidenceIdentity = z.infer<typeof EvidenceIdentity>;

export const EvidenceMachine = z.strictObject({
  cpu: z.string(),
  cores: z.int().min(1),
  memoryBytes: z.int().min(1),
  os: z.string(),
});
export type EvidenceMachine = z.infer<typeof EvidenceMachine>;

/** Where a start is: `load` and `cold` overlap, for the first requests are submitted while the model loads. */
export const StartPhase = z.enum([
  'idle',
  'cold',
  'warm',
  'serial',
  'invalid',
  'unload',
  'reload',
  'recovery',
  'end',
]);
export type StartPhase = z.infer<typeof StartPhase>;

/** Memory of the worker at one moment of a start. */
export const MemorySample = z.strictObject({
  /** Since the first sample of the start. */
  atMs: z.number().nonnegative(),
  phase: StartPhase,
  residentBytes: z.int().nonnegative(),
  /** After this warm wave, with nothing at work and JavaScript's garbage collected: what growth is judged by. */
  wave: z.int().nonnegative().optional(),
});
export type MemorySample = z.infer<typeof MemorySample>;

/** One fresh worker process at one count. */
export const EvidenceStart = z.strictObject({
  startedAt: z.iso.datetime(),
  waves: z.int().nonnegative(),
  requests: z.int().nonnegative(),
  mismatches: z.int().nonnegative(),
  /** Most leases of a loaded model that were seen active at once. */
  activeLeases: z.int().nonnegative(),
  memory: z.array(MemorySample),
  /** How it ended, for a start that did not come to its end. */
  failure: z.string().optional(),
});
export type EvidenceStart = z.infer<typeof EvidenceStart>;

/** Speed of one warm wave's work; never part of admission. */
export const Throughput = z.strictObject({
  audioSeconds: z.number().nonnegative(),
  wallSeconds: z.number().positive(),
  samples: z.int().min(1),
});
export type Throughput = z.infer<typeof Throughput>;

export const CountEvidence = z.strictObject({
  slots: z.int().min(1).max(16),
  /** Of this count alone: PASS when every entry passed or does not apply, for a reason. */
  verdict: EvidenceStatus,
  starts: z.array(EvidenceStart),
  entries: z.array(EvidenceEntry),
  throughput: Throughput.nullable(),
});
export type CountEvidence = z.infer<typeof CountEvidence>;

export const ModelEvidence = z.strictObject({
  schemaVersion: z.literal(1),
  procedure: z.int().min(1),
  identity: EvidenceIdentity,
  machine: EvidenceMachine,
  manifest: EvidenceManifest,
  /** The command that repeats it. */
  reproduce: z.string(),
  startedAt: z.iso.datetime(),
  endedAt: z.iso.datetime().nullable(),
  /** Ascending from 1, each count once. */
  counts: z.array(CountEvidence),
  /** Three verdicts, each by itself. */
  verdicts: z.strictObject({
    /** The worst of the counts'. */
    model: EvidenceStatus,
    /** As the shared record of the build stood when this one was written; admission reads that record itself. */
    framework: EvidenceStatus,
    performance: z.enum(['completed', 'pending', 'memory-blocked']),
  }),
});
export type ModelEvidence = z.infer<typeof ModelEvidence>;

/** Shared by all models of one build. */
export const FrameworkEvidence = z.strictObject({
  schemaVersion: z.literal(1),
  procedure: z.int().min(1),
  build: z.string().min(1),
  machine: EvidenceMachine,
  reproduce: z.string(),
  startedAt: z.iso.datetime(),
  endedAt: z.iso.datetime().nullable(),
  /** F1…F6; each names its tests in `observed`. */
  entries: z.array(EvidenceEntry),
});
export type FrameworkEvidence = z.infer<typeof FrameworkEvidence>;

/** A record as it stands in a file; undefined for anything else, such as one of another version. */
export function parseModelEvidence(raw: unknown): ModelEvidence | undefined {
  return ModelEvidence.safeParse(raw).data;
}

/** As `parseModelEvidence`. */
export function parseFrameworkEvidence(raw: unknown): FrameworkEvidence | undefined {
  return FrameworkEvidence.safeParse(raw).data;
}

/** Worst first. */
const SEVERITY: readonly EvidenceStatus[] = ['FAIL', 'BLOCKED', 'PENDING', 'UNSUPPORTED'];

/** Of several entries or counts; none at all are PENDING, and one that does not apply needs a reason. */
export function verdictOf(
  parts: readonly { readonly status: EvidenceStatus; readonly reason?: string | undefined }[],
): EvidenceStatus {
  if (parts.length === 0) return 'PENDING';
  const statuses = parts.map(({ status, reason }) =>
    status === 'NOT_APPLICABLE' && !reason ? 'PENDING' : status,
  );
  return SEVERITY.find((status) => statuses.includes(status)) ?? 'PASS';
}
