/**
 * What a model's workers get on this machine without a measurement of it: as many processes as cores and memory allow, and with
 * `--slots auto` the fastest count that evidence admits.
 */
import { arch, availableParallelism, cpus, freemem, platform, release, totalmem } from 'node:os';
import type { Config } from '../../core/config.ts';
import type { EvidenceMachine, ModelEvidence } from '../../core/evidence/evidence.ts';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import { NativeEngine } from '../../engine/native-engine.ts';
import { peakBytes } from '../../models/evidence/admission.ts';
import { EvidenceStore } from '../../models/evidence/evidence-store.ts';
import type { InstalledModel } from '../../models/installed/installed-models.ts';
import { evidenceMode } from '../../worker/models/evidence-policy.ts';
import type { CapacityOptions } from './capacity-options.ts';

/** Without evidence for more, one slot; what a slot is given at once is measured in docs/performance.md. */
const AUTO_SLOTS = 1;
const AUTO_BATCH = 8;
const MAX_AUTO_WORKERS = 8;
/** What a worker with one slot takes, with room to spare. */
const WORKER_BYTES = 400 * 2 ** 20;
/** Within this of the fastest, more slots in fewer processes win: they hold the weights once. */
const AS_FAST = 0.95;

/** Capacity as the workers are told. */
export interface Capacity {
  readonly slots: number;
  /** Slot counts up to this one are taken without evidence. */
  readonly unvalidatedSlots: number;
  readonly batch: number;
  readonly threads: number;
  readonly workers: number;
}

/** What this machine has to offer. */
export interface Machine {
  /** As it stands in evidence. */
  readonly cpu: string;
  readonly cores: number;
  readonly freeBytes: number;
}

export function thisMachine(): Machine {
  const cores = availableParallelism();
  return { cpu: cpus()[0]?.model.trim() || `${cores} cores`, cores, freeBytes: freemem() };
}

/** This machine, as evidence names it. */
export function evidenceMachine(): EvidenceMachine {
  const { cpu, cores } = thisMachine();
  return { cpu, cores, memoryBytes: totalmem(), os: `${platform()} ${release()} ${arch()}` };
}

/** Worker processes that memory holds. */
export function fittingWorkers(freeBytes: number): number {
  return Math.floor(freeBytes / WORKER_BYTES);
}

/** Counts for what was left to us: a core for every compute thread, as far as memory goes. */
export function capacityOf(
  options: CapacityOptions,
  machine: Pick<Machine, 'cores' | 'freeBytes'>,
): Capacity {
  const slots = options.unvalidatedSlots ?? (options.slots === 'auto' ? AUTO_SLOTS : options.slots);
  const { threads } = options;
  const fitting = Math.min(
    Math.floor(machine.cores / (slots * threads)),
    fittingWorkers(machine.freeBytes),
    MAX_AUTO_WORKERS,
  );
  return {
    slots,
    unvalidatedSlots: options.unvalidatedSlots ?? 0,
    batch: options.batch === 'auto' ? AUTO_BATCH : options.batch,
    threads,
    workers: options.workers === 'auto' ? Math.max(1, fitting) : options.workers,
  };
}

export interface SlotChoice {
  /** Largest admitted count. */
  readonly admitted: number;
  readonly record: ModelEvidence;
  readonly threads: number;
  /** Worker processes that were asked for; undefined = as many as pay. */
  readonly workers: number | undefined;
  readonly machine: Machine;
}

/**
 * Never more threads than cores, never more than memory holds. Counts are compared by what was measured for them where it
 * was measured on such a machine, else by their threads.
 */
export function fastestSlots(choice: SlotChoice): number {
  const { admitted, record, threads, machine, workers } = choice;
  const isThisMachine =
    record.machine.cpu === machine.cpu && record.machine.cores === machine.cores;
  let best = { slots: 1, speed: 0 };
  for (let slots = 1; slots <= admitted; slots += 1) {
    const processes = workers ?? Math.max(1, Math.floor(machine.cores / (slots * threads)));
    const peak = peakBytes(record, slots) ?? 0;
    const fits =
      processes * slots * threads <= machine.cores && processes * peak <= machine.freeBytes;
    if (slots > 1 && !fits) continue;
    const measured = isThisMachine ? timesRealTime(record, slots) : undefined;
    const speed = processes * (measured ?? slots * threads);
    if (speed >= best.speed * AS_FAST) best = { slots, speed: Math.max(speed, best.speed) };
  }
  return best.slots;
}

function timesRealTime(record: ModelEvidence, slots: number): number | undefined {
  const throughput = record.counts.find((count) => count.slots === slots)?.throughput;
  return throughput ? throughput.audioSeconds / throughput.wallSeconds : undefined;
}

/** What evidence says about a model. */
export interface Admitted {
  readonly count: number;
  /** The largest batch that it covers with more than one slot. */
  readonly batch: number;
  readonly record: ModelEvidence | undefined;
}

export const WITHOUT_EVIDENCE: Admitted = { count: 1, batch: 1, record: undefined };

/** Without any evidence the addon is not even loaded for it. */
export async function askEvidence(
  installed: InstalledModel,
  batch: number,
  { modelsDir, addonPath }: Config,
): Promise<Admitted> {
  const evidence = new EvidenceStore({ modelsDir });
  const { id: model, family, task } = installed.entry;
  const mode = evidenceMode(batch);
  if (!(await evidence.holds(model, mode))) return WITHOUT_EVIDENCE;
  const { build } = new NativeEngine({ addon: addonPath });
  const identity = {
    model,
    checkpointSha256: await sha256OfFile(installed.path),
    build: build.identity,
    backend: build.backend,
    family,
    task,
    mode,
  };
  const { count, record } = await evidence.admitted(identity, batch);
  if (record === undefined) return WITHOUT_EVIDENCE;
  return { count, batch: record.manifest.batch, record };
}

/** What is done without a measurement of this very machine: the same every time. */
export function standardCapacity(
  options: CapacityOptions,
  { count, record }: Admitted,
  machine: Machine,
): Capacity {
  const plain = capacityOf(options, machine);
  if (options.slots !== 'auto' || options.unvalidatedSlots !== undefined) return plain;
  if (record === undefined || count === 1) return plain;
  const workers = options.workers === 'auto' ? undefined : options.workers;
  const { threads } = options;
  const slots = fastestSlots({ admitted: count, record, threads, workers, machine });
  return capacityOf({ ...options, slots }, machine);
}
