/** Which layouts a tuning tries, and which of the measured ones it takes. Pure. */
import type {
  Layout,
  TunedLayout,
  TuningIdentity,
  TuningMeasurement,
} from '../../core/evidence/tuning.ts';

const BATCHES = [8, 4, 16] as const;
/** More threads of one graph than this have never paid. */
const MOST_THREADS = 4;
const MOST_WORKERS = 8;
/** Within this of the fastest, what takes less memory wins. */
const AS_FAST = 0.95;

export interface TuningSpace {
  /** What is done without a measurement: it is tried first, whatever else is. */
  readonly standard: TunedLayout;
  /** What is not free to choose. */
  readonly fixed: TuningIdentity['fixed'];
  /** Slots above this are never tried. */
  readonly admitted: number;
  /** Larger batches are not tried with more than one slot: evidence does not speak for them. */
  readonly validatedBatch: number;
  readonly cores: number;
  /** Worker processes that memory holds. */
  readonly fittingWorkers: number;
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

export function batchesOf(
  { standard, fixed, validatedBatch }: TuningSpace,
  slots: number,
): number[] {
  if (fixed.batch !== undefined) return [fixed.batch];
  const batches = [...new Set([standard.batch, ...BATCHES])];
  return slots === 1 ? batches : batches.filter((batch) => batch <= validatedBatch);
}

/** Of those about as fast as the fastest: the fewest processes, then the smallest batch, then the fewest threads. */
export function bestOf(measured: readonly TuningMeasurement[]): TunedLayout | undefined {
  const fastest = Math.max(...measured.map(({ timesRealTime }) => timesRealTime));
  const [best] = measured
    .filter(({ timesRealTime }) => timesRealTime >= fastest * AS_FAST)
    .toSorted((a, b) => a.workers - b.workers || a.batch - b.batch || a.threads - b.threads);
  if (best === undefined) return undefined;
  const { workers, slots, threads, batch } = best;
  return { workers, slots, threads, batch };
}

/** The powers of two up to `most`, and `most`; or the one that is fixed. */
function choices(fixed: number | undefined, most: number): number[] {
  if (fixed !== undefined) return [fixed];
  const powers = [1, 2, 4, 8, 16].filter((count) => count < most);
  return [...powers, most];
}

function isSame(a: Layout, b: Layout): boolean {
  return a.workers === b.workers && a.slots === b.slots && a.threads === b.threads;
}
