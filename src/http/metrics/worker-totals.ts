/**
 * What all workers together have done. Each worker publishes what it has done since it started, so the differences between
 * two looks are added up. Workers come and go.
 */
import type { BatchStats, WorkerPresence } from '../../core/worker/status.ts';

/** What a model's batches in one worker have added since the last look. */
export interface BatchProgress {
  readonly model: string;
  /** Element i is the number of batches of i + 1 items. */
  readonly batchSizes: readonly number[];
  readonly audioSeconds: number;
  readonly busySeconds: number;
}

type Done = Pick<BatchStats, 'batchSizes' | 'audioSeconds' | 'busyMs'>;

interface Seen {
  readonly done: Done;
  readonly at: number;
}

const NOTHING: Done = { batchSizes: [], audioSeconds: 0, busyMs: 0 };
/** A worker that is back within this time is not counted from its start again. */
const REMEMBER_MS = 3_600_000;

export class WorkerTotals {
  readonly #since: number;
  /** The key is worker and model. */
  readonly #seen = new Map<string, Seen>();

  /** @param since milliseconds since 1970. What workers that started before had done by the first look is not counted. */
  constructor(since: number) {
    this.#since = since;
  }

  /** @param now milliseconds since 1970 */
  advance(workers: readonly WorkerPresence[], now: number): BatchProgress[] {
    const progress: BatchProgress[] = [];
    for (const { id: worker, startedAt, runtime } of workers) {
      for (const { id: model, batches } of runtime.models) {
        const key = `${worker} ${model}`;
        const known = this.#seen.get(key);
        this.#seen.set(key, { done: batches, at: now });
        if (known !== undefined || startedAt >= this.#since)
          progress.push({ model, ...difference(batches, known?.done ?? NOTHING) });
      }
    }
    for (const [key, { at }] of this.#seen) if (now - at > REMEMBER_MS) this.#seen.delete(key);
    return progress;
  }
}

function difference(now: Done, known: Done): Omit<BatchProgress, 'model'> {
  const before = now.busyMs < known.busyMs ? NOTHING : known;
  return {
    batchSizes: now.batchSizes.map((count, at) => count - (before.batchSizes[at] ?? 0)),
    audioSeconds: now.audioSeconds - before.audioSeconds,
    busySeconds: (now.busyMs - before.busyMs) / 1_000,
  };
}
