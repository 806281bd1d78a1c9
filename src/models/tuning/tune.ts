/** Measures the layouts of a model on this machine, one after the other, and takes the best. */
import type {
  Layout,
  TunedLayout,
  TuningIdentity,
  TuningMeasurement,
} from '../../core/evidence/tuning.ts';
import type { Clock } from '../../runtime/clock.ts';

const BATCHES = [8, 4, 16] as const;
/** More threads of one graph than this have never paid. */
const MOST_THREADS = 4;
const MOST_WORKERS = 8;
/** Layouts that reach this share of the highest speed count as equally fast, and the one with the least memory wins. */
const AS_FAST = 0.95;

export interface TuningSpace {
  /** The layout that is used without a measurement. It is always tried first. */
  readonly standard: TunedLayout;
  /** The settings that the user has fixed. */
  readonly fixed: TuningIdentity['fixed'];
  /** Slots above this are never tried. */
  readonly admitted: number;
  /** Larger batches are not tried with more than one slot: evidence does not speak for them. */
  readonly validatedBatch: number;
  readonly cores: number;
  /** The number of worker processes for which there is memory. */
  readonly fittingWorkers: number;
}

/** A layout whose processes are ready to be measured. */
export interface OpenLayout extends AsyncDisposable {
  /** Seconds of audio per second, all processes together. */
  measure(batch: number): Promise<number>;
}

/** @throws {WavepoolError} why the model cannot run in this layout */
export type OpenLayoutFor = (layout: Layout, maxBatch: number) => Promise<OpenLayout>;

export interface TuneOptions {
  readonly open: OpenLayoutFor;
  readonly clock: Pick<Clock, 'now'>;
  /** No measurement but the first begins after this time. */
  readonly budgetMs: number;
}

export interface Tuning {
  readonly chosen: TunedLayout;
  readonly measured: readonly TuningMeasurement[];
}

/** @throws {WavepoolError} why not even the layout without a measurement can run */
export async function tune(space: TuningSpace, options: TuneOptions): Promise<Tuning> {
  const { open, clock, budgetMs } = options;
  const measured: TuningMeasurement[] = [];
  const giveUpAt = clock.now() + budgetMs;
  const isLate = () => measured.length > 0 && clock.now() >= giveUpAt;
  for (const layout of layoutsOf(space)) {
    if (isLate()) break;
    const batches = batchesOf(space, layout.slots);
    if (batches.length === 0) continue;
    try {
      await using ready = await open(layout, Math.max(...batches));
      for (const batch of batches) {
        if (isLate()) break;
        measured.push({ ...layout, batch, timesRealTime: await ready.measure(batch) });
      }
    } catch (error) {
      // The first layout must run. The others are only tried, so one that this machine cannot run is left out.
      if (measured.length === 0) throw error;
    }
  }
  return { chosen: bestOf(measured) ?? space.standard, measured };
}

/** Every way to give each core one compute thread; none has more slots than evidence admits. */
export function layoutsOf(space: TuningSpace): Layout[] {
  const { standard, fixed, admitted, cores, fittingWorkers } = space;
  const { workers, slots, threads } = standard;
  const layouts: Layout[] = [{ workers, slots, threads }];
  for (const slots of choices(fixed.slots, admitted)) {
    for (const threads of choices(fixed.threads, MOST_THREADS)) {
      const filling = Math.min(Math.floor(cores / (slots * threads)), fittingWorkers, MOST_WORKERS);
      const workers = fixed.workers ?? filling;
      if (slots > admitted || workers < 1 || workers * slots * threads > cores) continue;
      if (!layouts.some((known) => isSame(known, { workers, slots, threads })))
        layouts.push({ workers, slots, threads });
    }
  }
  return layouts;
}

function batchesOf({ standard, fixed, validatedBatch }: TuningSpace, slots: number): number[] {
  if (fixed.batch !== undefined) return [fixed.batch];
  const batches = [...new Set([standard.batch, ...BATCHES])];
  return slots === 1 ? batches : batches.filter((batch) => batch <= validatedBatch);
}

/** Takes, of the layouts that are about as fast as the fastest, the one with the fewest processes, then the smallest batch, then the fewest threads. */
export function bestOf(measured: readonly TuningMeasurement[]): TunedLayout | undefined {
  const fastest = Math.max(...measured.map(({ timesRealTime }) => timesRealTime));
  const [best] = measured
    .filter(({ timesRealTime }) => timesRealTime >= fastest * AS_FAST)
    .toSorted((a, b) => a.workers - b.workers || a.batch - b.batch || a.threads - b.threads);
  if (best === undefined) return undefined;
  const { workers, slots, threads, batch } = best;
  return { workers, slots, threads, batch };
}

/** Gives the powers of two up to `most`, and `most` itself; or only the value that is fixed. */
function choices(fixed: number | undefined, most: number): number[] {
  if (fixed !== undefined) return [fixed];
  const powers = [1, 2, 4, 8, 16].filter((count) => count < most);
  return [...powers, most];
}

function isSame(a: Layout, b: Layout): boolean {
  return a.workers === b.workers && a.slots === b.slots && a.threads === b.threads;
}
