/** What all workers together do, from what each says it has done since it started: workers come and go. */
import type { BatchStats, WorkerPresence } from '../../core/worker/status.ts';

/** What a model's batches in one worker have added since the last look. */
export interface BatchProgress {
  readonly model: string;
  /** Element i counts the batches of i + 1 items. */
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
/** A worker that cannot be seen for a while must not count anew when it is back. */
const REMEMBER_MS = 3_600_000;

export class WorkerTotals {
  readonly #since: number;
  /** By worker and model. */
  readonly #seen = new Map<string, Seen>();

  /** @param since milliseconds since 1970: of workers that ran then already, only what they do after the first look counts. */
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
