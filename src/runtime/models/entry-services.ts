import type { BatchWatch } from '../batches/batcher.ts';
import type { Clock } from '../clock.ts';
import type { Engine } from '../engine.ts';
import type { LoadGuard } from './load-guard.ts';
import type { MemoryEstimate } from './memory-estimate.ts';
import type { ModelEntry } from './model-entry.ts';
import type { ModelPlanner } from './model-plan.ts';
import type { SlotPolicy } from './slot-check.ts';

/** What the entries of a runtime share. */
export interface EntryServices {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly guard: LoadGuard;
  readonly estimate: MemoryEstimate;
  readonly planner: ModelPlanner | undefined;
  readonly slotPolicy: SlotPolicy;
  /** Of models that have none of their own; 0 = unbounded. */
  readonly busyTimeoutMs: number;
  readonly loadTimeoutMs: number;
  readonly idleUnloadMs: number;
  /** Called in the turn of every change that `ModelChangeListener` is told of, and perhaps of others. */
  readonly onChange: (entry: ModelEntry) => void;
  readonly watchBatches?: BatchWatch | undefined;
  readonly onBackgroundError: (error: unknown) => void;
}
