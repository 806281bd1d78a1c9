/**
 * The model gate: three fresh starts at every count from one up to the one that was asked for, judged after each. It stops
 * at the first count that does not pass, since only consecutive counts are admitted. Starts that have ended are kept, good
 * or bad: an intermittent mismatch does not go away by trying again, only by starting over (`fresh`).
 */
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import type {
  CountEvidence,
  EvidenceIdentity,
  EvidenceMachine,
  EvidenceMode,
  EvidenceStatus,
  ModelEvidence,
  StartPhase,
} from '../../core/evidence/evidence.ts';
import { PROCEDURE_VERSION, verdictOf } from '../../core/evidence/evidence.ts';
import type { ModelProbe, StartEnd, StartPlan } from '../../core/evidence/validation-ipc.ts';
import { sha256Of, sha256OfFile } from '../../core/files/file-hash.ts';
import { LockFile, LockHeldError } from '../../core/files/lock-file.ts';
import { MAX_SLOTS } from '../../runtime/slots/model-slots.ts';
import type { EvidenceStore } from '../evidence/evidence-store.ts';
import { judgeCount } from './judge.ts';
import { References } from './references.ts';
import type { ValidationWorker } from './start-process.ts';
import { StoredStarts } from './stored-starts.ts';
import { makeWorkload, planWaves, STARTS, type Workload } from './workload.ts';

export interface ValidationProgress {
  readonly slots: number;
  /** 1…3 */
  readonly start: number;
  readonly phase: StartPhase;
  /** In the phase `warm`: the number of this wave, of `waves`. */
  readonly wave: number;
  readonly waves: number;
  /** Starts that have ended, of all. */
  readonly doneStarts: number;
  readonly totalStarts: number;
}

export interface ValidateModelOptions {
  readonly model: { readonly id: string; readonly path: string };
  readonly mode: EvidenceMode;
  readonly slots: number;
  readonly threads: number;
  /** Items of one native batch; counts in mode `batch` only. */
  readonly batch: number;
  readonly addonPath?: string | undefined;
  /** Forgets the starts of an earlier call. */
  readonly fresh?: boolean | undefined;
  readonly store: EvidenceStore;
  readonly worker: ValidationWorker;
  readonly machine: EvidenceMachine;
  /** @defaultValue what the system can still give to this process */
  readonly availableBytes?: (() => number) | undefined;
  /** The command that repeats it. */
  readonly reproduce: string;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: ValidationProgress) => void) | undefined;
  /** Told after each start, with everything so far. */
  readonly onJudged?: ((evidence: ModelEvidence) => void) | undefined;
}

/**
 * Validates and records. The record is written after each start, so what is known so far can always be looked at.
 * @throws {WavepoolError} OUTPUT_BUSY while another process validates the same, CANCELLED, or why the model cannot be loaded
 */
export async function validateModel(options: ValidateModelOptions): Promise<ModelEvidence> {
  const { store, model, mode, signal } = options;
  const folder = store.startsFolder(model.id, mode);
  await mkdir(path.dirname(folder), { recursive: true });
  await using _lock = await lock(`${folder}.lock`, signal);
  const starts = new StoredStarts(folder);
  if (options.fresh === true) await starts.clear();
  return await (await ModelGate.open(options, starts)).run();
}

async function lock(file: string, signal: AbortSignal | undefined): Promise<LockFile> {
  try {
    return await LockFile.acquire(file, { timeoutMs: 0, signal });
  } catch (thrown) {
    if (!(thrown instanceof LockHeldError)) throw thrown;
    throw new WavepoolError('OUTPUT_BUSY', thrown.message, { cause: thrown });
  }
}

type NotRun = { readonly status: EvidenceStatus; readonly reason: string };

class ModelGate {
  readonly #options: ValidateModelOptions;
  readonly #starts: StoredStarts;
  readonly #identity: EvidenceIdentity;
  readonly #probe: ModelProbe;
  readonly #workload: Workload;
  readonly #batch: number;
  readonly #startedAt = new Date().toISOString();
  /** How the starts of each count ended; the first item is that of one slot. */
  readonly #ends: StartEnd[][] = [];
  #references: References | undefined;

  private constructor(
    options: ValidateModelOptions,
    starts: StoredStarts,
    identity: EvidenceIdentity,
    probe: ModelProbe,
    workload: Workload,
  ) {
    this.#options = options;
    this.#starts = starts;
    this.#identity = identity;
    this.#probe = probe;
    this.#workload = workload;
    this.#batch = batchOf(options);
  }

  static async open(options: ValidateModelOptions, starts: StoredStarts): Promise<ModelGate> {
    const { model, mode, threads, addonPath, worker, signal } = options;
    const request = { path: model.path, addonPath, mode, threads, batch: batchOf(options) };
    const probe = await worker.probe(request, { signal });
    const identity: EvidenceIdentity = {
      model: model.id,
      checkpointSha256: await sha256OfFile(model.path),
      build: probe.build.identity,
      backend: probe.build.backend,
      family: probe.family,
      task: probe.task,
      mode,
    };
    return new ModelGate(options, starts, identity, probe, await makeWorkload(probe));
  }

  async run(): Promise<ModelEvidence> {
    const { slots: most } = this.#options;
    let refusal = this.#probe.refusal === undefined ? undefined : unsupported(this.#probe.refusal);
    for (let slots = 1; slots <= most && refusal === undefined; slots += 1) {
      refusal = this.#obstacle(slots);
      if (refusal !== undefined) break;
      await this.#runCount(slots);
      const { verdict } = this.#judge(slots);
      if (verdict === 'PASS') continue;
      refusal = { status: 'PENDING', reason: `not run, since ${slots} slots are ${verdict}` };
    }
    if (refusal === undefined) await this.#recall(most + 1);
    return this.#record(refusal, new Date().toISOString());
  }

  /** Tells what keeps a count from being tried. In its recovery, a start has two models in memory. */
  #obstacle(slots: number): NotRun | undefined {
    const { capacity, weightBytes, sessionBytes } = this.#probe;
    if (slots > capacity) return unsupported(`the family supports ${capacity} at most`);
    const { availableBytes = () => process.availableMemory() } = this.#options;
    const [needed, available] = [2 * (weightBytes + slots * sessionBytes), availableBytes()];
    if (needed <= available) return undefined;
    const figures = `a start with ${slots} slots needs ${mib(needed)} MiB at least, ${mib(available)} MiB are available`;
    return { status: 'BLOCKED', reason: figures };
  }

  /** Stops early once something has failed: the count cannot pass any more. */
  async #runCount(slots: number): Promise<void> {
    const ends: StartEnd[] = [];
    this.#ends.push(ends);
    for (let start = 0; start < STARTS; start += 1) {
      const plan = this.#plan(slots, start);
      const key = this.#key(plan);
      let end = await this.#starts.read(slots, start, key);
      if (end === undefined) {
        end = await this.#start(plan, start);
        await this.#starts.write(slots, start, key, end);
      }
      ends.push(end);
      if (slots === 1 && ends.length === STARTS) this.#references = references(ends);
      const soFar = await this.#record(undefined, null);
      this.#options.onJudged?.(soFar);
      if (end.kind === 'broken' || this.#judge(slots).verdict === 'FAIL') return;
    }
  }

  /** Larger counts that an earlier call validated still stand. */
  async #recall(from: number): Promise<void> {
    for (let slots = from; slots <= Math.min(MAX_SLOTS, this.#probe.capacity); slots += 1) {
      const ends: StartEnd[] = [];
      for (let start = 0; start < STARTS; start += 1) {
        const end = await this.#starts.read(slots, start, this.#key(this.#plan(slots, start)));
        if (end !== undefined) ends.push(end);
      }
      if (ends.length < STARTS) return;
      this.#ends.push(ends);
    }
  }

  #start(plan: StartPlan, start: number): Promise<StartEnd> {
    const { worker, signal, onProgress, slots: most } = this.#options;
    const doneStarts = this.#ends.flat().length;
    return worker.start(plan, {
      signal,
      onPhase: (phase, wave) => {
        onProgress?.({
          slots: plan.slots,
          start: start + 1,
          phase,
          wave,
          waves: plan.warm.length,
          doneStarts,
          totalStarts: most * STARTS,
        });
      },
    });
  }

  #plan(slots: number, start: number): StartPlan {
    const { model, mode, threads, addonPath } = this.#options;
    const { items } = this.#workload;
    return {
      model,
      ...(addonPath === undefined ? {} : { addonPath }),
      mode,
      // A stream keeps its state in its session.
      stateful: this.#probe.stateful && mode !== 'streaming',
      slots,
      threads,
      batch: this.#batch,
      items: items.map(({ path: file, startSample, endSample }) => {
        return { path: file, startSample, endSample };
      }),
      ...planWaves(items.length, slots, this.#batch, start),
    };
  }

  /** Whatever a start depends on, but not where files lie. */
  #key({ slots, threads, batch, cold, coldGroups, warm, again }: StartPlan): string {
    const plan = { slots, threads, batch, cold, coldGroups, warm, again };
    const items = this.#workload.manifest;
    return sha256Of(
      JSON.stringify({ procedure: PROCEDURE_VERSION, identity: this.#identity, items, plan }),
    );
  }

  #judge(slots: number, notRun?: NotRun): CountEvidence {
    const { mode } = this.#options;
    const ends = this.#ends[slots - 1] ?? [];
    return judgeCount({
      slots,
      mode,
      ends,
      references: this.#references,
      notRun: ends.length === 0 ? notRun : undefined,
    });
  }

  async #record(notRun: NotRun | undefined, endedAt: string | null): Promise<ModelEvidence> {
    const { store, machine, reproduce, threads, slots: most } = this.#options;
    const { build } = this.#probe;
    const counts = Array.from({ length: Math.max(most, this.#ends.length) }, (_, at) =>
      this.#judge(at + 1, notRun ?? { status: 'PENDING', reason: 'not run yet' }),
    );
    const framework = (await store.framework(build.identity)).record;
    const evidence: ModelEvidence = {
      schemaVersion: 1,
      procedure: PROCEDURE_VERSION,
      identity: this.#identity,
      machine,
      manifest: {
        threads,
        batch: this.#batch,
        seed: this.#workload.seed,
        ggml: build.ggml,
        compiler: build.compiler,
        flags: build.flags,
        items: [...this.#workload.manifest],
      },
      reproduce,
      startedAt: this.#startedAt,
      endedAt,
      counts,
      verdicts: {
        model: verdictOf(counts.map(({ verdict }) => ({ status: verdict }))),
        framework: verdictOf(framework?.entries ?? []),
        performance: performanceOf(counts),
      },
    };
    await store.writeModel(evidence);
    return evidence;
  }
}

function batchOf({ mode, batch }: ValidateModelOptions): number {
  return mode === 'batch' ? batch : 1;
}

function mib(bytes: number): number {
  return Math.ceil(bytes / 2 ** 20);
}

function unsupported(reason: string): NotRun {
  return { status: 'UNSUPPORTED', reason };
}

function references(ends: readonly StartEnd[]): References | undefined {
  const reports = ends.flatMap((end) => (end.kind === 'finished' ? [end.report] : []));
  return reports.length === STARTS ? new References(reports) : undefined;
}

function performanceOf(counts: readonly CountEvidence[]): ModelEvidence['verdicts']['performance'] {
  if (counts.some(({ verdict }) => verdict === 'BLOCKED')) return 'memory-blocked';
  return counts.every(({ throughput }) => throughput !== null) ? 'completed' : 'pending';
}
