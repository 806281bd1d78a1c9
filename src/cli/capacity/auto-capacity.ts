/**
 * `--slots auto --batch auto`: how each model is laid out on this machine. Typed, they measure it once and remember it; left
 * out, what is remembered is used, else the same rule every time (`standard-capacity.ts`).
 */
import type { Config } from '../../core/config.ts';
import type { TunedLayout, TuningIdentity, TuningRecord } from '../../core/evidence/tuning.ts';
import { NativeEngine } from '../../engine/native-engine.ts';
import type { InstalledModel } from '../../models/installed/installed-models.ts';
import { type OpenLayoutFor, tune } from '../../models/tuning/tune.ts';
import { tuningProcesses } from '../../models/tuning/tuning-process.ts';
import { TuningStore } from '../../models/tuning/tuning-store.ts';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import type { CapacityOptions } from './capacity-options.ts';
import {
  type Admitted,
  askEvidence,
  type Capacity,
  evidenceMachine,
  fittingWorkers,
  standardCapacity,
  thisMachine,
  WITHOUT_EVIDENCE,
} from './standard-capacity.ts';

/** A tuning goes on for at most about so long. */
const BUDGET_MS = 15_000;

export interface CapacityServices {
  readonly config: Config;
  readonly context: CliContext;
  readonly signal?: AbortSignal | undefined;
  /** @defaultValue in processes of their own */
  readonly open?: ((model: InstalledModel) => OpenLayoutFor) | undefined;
  /** @defaultValue the system's */
  readonly clock?: Pick<Clock, 'now'> | undefined;
  /** Identity of the native code. @defaultValue asked of the addon */
  readonly build?: (() => string) | undefined;
}

/** In the order of the models. The first one decides how many worker processes there are. */
export async function chooseCapacities(
  options: CapacityOptions,
  models: readonly InstalledModel[],
  services: CapacityServices,
): Promise<Capacity[]> {
  const capacities: Capacity[] = [];
  for (const model of models) {
    const workers = capacities[0]?.workers ?? options.workers;
    capacities.push(await chooseCapacity({ ...options, workers }, model, services));
  }
  return capacities;
}

/** @throws {WavepoolError} why the model cannot be measured, CANCELLED */
export async function chooseCapacity(
  options: CapacityOptions,
  model: InstalledModel,
  services: CapacityServices,
): Promise<Capacity> {
  const machine = thisMachine();
  const { config } = services;
  const plain = standardCapacity(options, WITHOUT_EVIDENCE, machine);
  if (options.unvalidatedSlots !== undefined) return plain;
  if (options.slots !== 'auto' && options.batch !== 'auto') return plain;
  const admitted = await askEvidence(model, plain.batch, config);
  const standard = standardCapacity(options, admitted, machine);
  // Detectors serve all slots with one; what is fixed beyond the evidence is refused by the workers.
  if (model.entry.task !== 'asr' || standard.slots > admitted.count) return standard;
  const store = new TuningStore(config.modelsDir);
  const { wanted = false, again = false } = options.tuning ?? {};
  if (!wanted && (await store.all(model.entry.id)).length === 0) return standard;
  const fixed = fixedIn(options);
  const identity = identityOf(model, admitted, fixed, services);
  const known = again ? undefined : await store.find(identity);
  if (known === undefined && !wanted) return standard;
  const chosen = known ?? (await measure({ model, standard, admitted, identity, services }));
  const fitting = Math.max(1, fittingWorkers(machine.freeBytes));
  return { ...standard, ...chosen.chosen, workers: Math.min(chosen.chosen.workers, fitting) };
}

/** What was typed as a number. */
function fixedIn(options: CapacityOptions): Partial<TunedLayout> {
  const { slots, batch, threads, workers, tuning } = options;
  return {
    ...(slots === 'auto' ? {} : { slots }),
    ...(batch === 'auto' ? {} : { batch }),
    ...(workers === 'auto' ? {} : { workers }),
    ...(tuning?.threadsTyped === true ? { threads } : {}),
  };
}

function identityOf(
  model: InstalledModel,
  admitted: Admitted,
  fixed: Partial<TunedLayout>,
  { config, build }: CapacityServices,
): TuningIdentity {
  const { cpu, cores, memoryBytes } = evidenceMachine();
  return {
    model: model.entry.id,
    checkpointSha256: model.record.weights.sha256,
    build: build?.() ?? new NativeEngine({ addon: config.addonPath }).build.identity,
    cpu,
    cores,
    memoryBytes,
    admitted: admitted.count,
    fixed,
  };
}

interface Measuring {
  readonly model: InstalledModel;
  readonly standard: Capacity;
  readonly admitted: Admitted;
  readonly identity: TuningIdentity;
  readonly services: CapacityServices;
}

async function measure(measuring: Measuring): Promise<TuningRecord> {
  const { model, standard, admitted, identity, services } = measuring;
  const { config, context, signal, clock = systemClock } = services;
  const { id } = model.entry;
  printLine(context.stderr, `measuring once how ${id} runs best here (a few seconds)`);
  const { workers, slots, threads, batch } = standard;
  const space = {
    standard: { workers, slots, threads, batch },
    fixed: identity.fixed,
    admitted: admitted.count,
    validatedBatch: admitted.batch,
    cores: identity.cores,
    fittingWorkers: Math.max(1, fittingWorkers(thisMachine().freeBytes)),
  };
  const { path } = model;
  const open =
    services.open?.(model) ?? tuningProcesses({ path, addonPath: config.addonPath, signal });
  const { chosen, measured } = await tune(space, { open, clock, budgetMs: BUDGET_MS });
  const measuredAt = new Date().toISOString();
  const record: TuningRecord = {
    version: 1,
    identity,
    measuredAt,
    chosen,
    measured: [...measured],
  };
  await new TuningStore(config.modelsDir).keep(record);
  printLine(context.stderr, `${id}: ${describeTuning(record)}`);
  return record;
}

/** `2 workers × 1 slot × 1 thread, batch 8: 132 × real time, the best of 6 measured` */
export function describeTuning({ chosen, measured, identity }: TuningRecord): string {
  const { workers, slots, threads, batch } = chosen;
  const speed = measured.find((one) => isLayout(one, chosen))?.timesRealTime ?? 0;
  const layout = [plural(workers, 'worker'), plural(slots, 'slot'), plural(threads, 'thread')];
  return (
    `${layout.join(' × ')}, batch ${batch}: ${speed.toFixed(1)} × real time, the best of ` +
    `${measured.length} measured (evidence admits ${plural(identity.admitted, 'slot')})`
  );
}

function isLayout(one: TunedLayout, other: TunedLayout): boolean {
  return (['workers', 'slots', 'threads', 'batch'] as const).every(
    (key) => one[key] === other[key],
  );
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
