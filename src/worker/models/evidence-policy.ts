/** The slot policy of a worker: more than one slot needs evidence, or an operator who does without, and enough memory. */
import { WavepoolError } from '../../core/errors.ts';
import type { EvidenceMode } from '../../core/evidence/evidence.ts';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import type { WorkerModel } from '../../core/worker/worker-settings.ts';
import { measuredSessionBytes } from '../../models/evidence/admission.ts';
import { EvidenceStore, type ModelAdmission } from '../../models/evidence/evidence-store.ts';
import type { Engine, ModelInfo, ModelPlan, ModelPlanner } from '../../runtime/engine.ts';
import { type ModelConfiguration, poolOptions } from '../../runtime/models/model-configuration.ts';
import { assertSlotsAdmitted, type ModelPolicy } from '../../runtime/models/slot-policy.ts';

/** Memory that a worker needs beside its sessions, for decoded audio, the detector and JavaScript. */
const SPARE_BYTES = 64 * 2 ** 20;

export interface EvidencePolicyServices {
  readonly engine: Engine;
  /** Tells what a model needs without loading it. Without a planner, a session is probed. */
  readonly planner?: ModelPlanner | undefined;
  /** @defaultValue the memory that the system still has for this process */
  readonly availableBytes?: (() => number) | undefined;
  /** @defaultValue the store that the weights lie in */
  readonly evidence?: EvidenceStore | undefined;
}

/** The mode of evidence that covers batches of this size. */
export function evidenceMode(batch: number): EvidenceMode {
  return batch > 1 ? 'batch' : 'offline';
}

/** The evidence for one model, as it was started. */
interface Learned {
  readonly path: string;
  readonly mode: EvidenceMode;
  readonly batch: number;
  readonly count: number;
}

/** A detector that is offered to live callers, under an id of its own. */
export interface LiveModel {
  readonly liveId: string;
  /** The id under which its weights were validated. */
  readonly id: string;
  readonly path: string;
  /** Most streams at once. */
  readonly streams: number;
}

export class EvidencePolicy implements ModelPolicy {
  readonly unvalidatedSlots: number;
  readonly #services: EvidencePolicyServices;
  readonly #learned = new Map<string, Learned>();

  /** @param unvalidatedSlots counts up to this one need no evidence */
  constructor(unvalidatedSlots: number, services: EvidencePolicyServices) {
    this.unvalidatedSlots = unvalidatedSlots;
    this.#services = services;
  }

  /** Covers the weights and the batches that the model was started with; others have no evidence. */
  evidence(id: string, configuration?: ModelConfiguration): number {
    const learned = this.#learned.get(id);
    if (learned === undefined) return 1;
    if (configuration === undefined) return learned.count;
    const { path, mode, maxBatch } = configuration;
    const wanted = mode === 'streaming' ? mode : evidenceMode(maxBatch);
    const isCovered = path === learned.path && maxBatch <= learned.batch && wanted === learned.mode;
    return isCovered ? learned.count : 1;
  }

  async plan(configuration: ModelConfiguration): Promise<ModelPlan | undefined> {
    const { slots, ...options } = poolOptions(configuration);
    return this.#services.planner?.planModel(configuration.path, options);
  }

  /**
   * Checks the slots that a model is started with, and remembers the evidence for it. One slot is always admitted, and
   * nothing is looked at for it. For more, the planner tells what the family supports and what a session costs, or one
   * session that is gone again afterwards.
   * @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY, or why the model cannot be loaded
   */
  async admit(model: WorkerModel): Promise<void> {
    if (model.slots === 1) return;
    const { engine, planner, availableBytes = () => process.availableMemory() } = this.#services;
    const plan = await (planner ? planned(planner, model) : probed(engine, model));
    const admission = await this.#ask(model, plan.info);
    assertSlotsAdmitted({
      model: model.id,
      slots: model.slots,
      evidence: admission.count,
      unvalidatedSlots: this.unvalidatedSlots,
      supported: plan.capacity,
      reason: admission.reason,
      validateOptions: model.batch > 1 ? `--batch ${model.batch}` : '--mode offline',
    });
    const { record } = admission;
    const measured = record === undefined ? 0 : (measuredSessionBytes(record) ?? 0);
    const sessionBytes = Math.max(plan.sessionBytes, measured);
    requireMemory(model, { ...plan, sessionBytes }, availableBytes());
  }

  /**
   * The streams that a detector may have at once: no more than evidence for the mode `streaming` admits, which is one
   * without any. Fewer than asked for is no error: live callers are told when there is no place.
   */
  async admitStreams({ liveId, id, path, streams }: LiveModel): Promise<number> {
    const { engine, planner } = this.#services;
    if (streams === 1 || planner === undefined) return Math.min(streams, this.#least);
    const plan = await planner.planModel(path, { mode: 'streaming', threads: 1, maxBatch: 1 });
    const { count } = await this.#store({ path }).admitted(
      {
        model: id,
        checkpointSha256: await sha256OfFile(path),
        build: engine.build.identity,
        backend: engine.build.backend,
        family: plan.info.family,
        task: plan.info.task,
        mode: 'streaming',
      },
      1,
    );
    this.#learned.set(liveId, { path, mode: 'streaming', batch: 1, count });
    return Math.min(streams, plan.capacity, Math.max(count, this.#least));
  }

  get #least(): number {
    return Math.max(1, this.unvalidatedSlots);
  }

  /** Looks up what a model that started with one slot may be given later. */
  async learn(model: WorkerModel, info: ModelInfo): Promise<void> {
    if (this.#learned.has(model.id)) return;
    const store = this.#store(model);
    if (await store.holds(model.id, evidenceMode(model.batch))) await this.#ask(model, info);
  }

  async #ask(model: WorkerModel, info: ModelInfo): Promise<ModelAdmission> {
    const { engine } = this.#services;
    const identity = {
      model: model.id,
      checkpointSha256: await sha256OfFile(model.path),
      build: engine.build.identity,
      backend: engine.build.backend,
      family: info.family,
      task: info.task,
      mode: evidenceMode(model.batch),
    };
    const admission = await this.#store(model).admitted(identity, model.batch);
    const { path, batch } = model;
    this.#learned.set(model.id, { path, mode: identity.mode, batch, count: admission.count });
    return admission;
  }

  #store(model: { readonly path: string }): EvidenceStore {
    return this.#services.evidence ?? EvidenceStore.ofWeights(model.path);
  }
}

function planned(planner: ModelPlanner, { path, threads, batch }: WorkerModel): Promise<ModelPlan> {
  return planner.planModel(path, { mode: 'offline', threads, maxBatch: batch });
}

/** Loads the model with one session, to learn what it needs; both are gone again afterwards. */
async function probed(engine: Engine, { path, threads, batch }: WorkerModel): Promise<ModelPlan> {
  const loaded = await engine.loadModel(path);
  try {
    const { info } = loaded;
    const pool = await loaded.createPool({ slots: 1, mode: 'offline', threads, maxBatch: batch });
    const { capacity, sessionBytes } = pool;
    await pool.close();
    return { info, capacity, weightBytes: info.weightBytes, sessionBytes: sessionBytes[0] ?? 0 };
  } finally {
    await loaded.close();
  }
}

function requireMemory(
  { id, slots }: WorkerModel,
  { weightBytes, sessionBytes }: ModelPlan,
  availableBytes: number,
): void {
  const fixedBytes = weightBytes + SPARE_BYTES;
  const neededBytes = slots * sessionBytes + fixedBytes;
  if (neededBytes <= availableBytes) return;
  const fit = Math.max(1, Math.floor((availableBytes - fixedBytes) / Math.max(1, sessionBytes)));
  throw new WavepoolError(
    'INSUFFICIENT_MEMORY',
    `${slots} slots of ${id} need ${mib(neededBytes)} MiB (${mib(sessionBytes)} each), ` +
      `${mib(availableBytes)} MiB are available, which is enough for ${Math.min(fit, slots)}`,
  );
}

function mib(bytes: number): number {
  return Math.ceil(bytes / 2 ** 20);
}
