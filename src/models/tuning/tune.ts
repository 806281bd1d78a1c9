/** Measures the layouts of a model on this machine, one after the other, and takes the best. */
import type { Layout, TunedLayout, TuningMeasurement } from '../../core/evidence/tuning.ts';
import type { Clock } from '../../runtime/clock.ts';
import { batchesOf, bestOf, layoutsOf, type TuningSpace } from './candidates.ts';

/** A layout as it stands ready to be measured. */
export interface OpenLayout extends AsyncDisposable {
  /** Seconds of audio per second, all processes together. */
  measure(batch: number): Promise<number>;
}

/** @throws {WavepoolError} why the model cannot run in this layout */
export type OpenLayoutFor = (layout: Layout, maxBatch: number) => Promise<OpenLayout>;

export interface TuneOptions {
  readonly open: OpenLayoutFor;
  readonly clock: Pick<Clock, 'now'>;
  /** Nothing is begun after so long, the first measurement aside. */
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
      // Others are only tried: one that this machine cannot run is none.
      if (measured.length === 0) throw error;
    }
  }
  return { chosen: bestOf(measured) ?? space.standard, measured };
}
