import type { BatchStats } from '../../core/worker/status.ts';

export type ItemEnd = 'completed' | 'failed' | 'cancelled';

/** The counters behind `BatchStats`. Waiting segments are not counted here, but in the queue itself. */
export class BatchCounters {
  readonly #ends: Record<ItemEnd, number> = { completed: 0, failed: 0, cancelled: 0 };
  readonly #batchSizes: number[] = [];
  #runningBatches = 0;
  #runningItems = 0;
  #audioSeconds = 0;
  #busyMs = 0;

  get runningBatches(): number {
    return this.#runningBatches;
  }

  batchStarted(items: number): void {
    this.#runningBatches += 1;
    this.#runningItems += items;
  }

  batchEnded(items: number, busyMs: number): void {
    this.#runningBatches -= 1;
    this.#runningItems -= items;
    this.#busyMs += busyMs;
    while (this.#batchSizes.length < items) this.#batchSizes.push(0);
    this.#batchSizes[items - 1] = (this.#batchSizes[items - 1] ?? 0) + 1;
  }

  itemEnded(end: ItemEnd, seconds: number): void {
    this.#ends[end] += 1;
    if (end === 'completed') this.#audioSeconds += seconds;
  }

  snapshot(queuedItems: number, queuedSeconds: number): BatchStats {
    return {
      queuedItems,
      queuedSeconds,
      runningBatches: this.#runningBatches,
      runningItems: this.#runningItems,
      batchSizes: [...this.#batchSizes],
      completedItems: this.#ends.completed,
      failedItems: this.#ends.failed,
      cancelledItems: this.#ends.cancelled,
      audioSeconds: this.#audioSeconds,
      busyMs: this.#busyMs,
    };
  }
}
