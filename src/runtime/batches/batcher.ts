/**
 * Mixes segments of many jobs into native batches.
 *
 * A segment waits in the batcher's own queue. When enough of them are due, the batcher asks `ModelSlots` for a lease.
 * Under the lease it asks for the pool, which may have to be loaded first; only then is the batch formed, from whatever
 * is due by that time (late binding). Segments keep their place before a manager: in the turn in which one joins, every
 * segment that is still held back asks for a lease, and segments that arrive later never use those leases.
 *
 * A lease is released only after native code has really returned. One bad or cancelled segment never fails another.
 */
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { BatchStats } from '../../core/worker/status.ts';
import type { Clock, Timer } from '../clock.ts';
import type { SessionPool, TaskOutcome, TaskResult } from '../engine.ts';
import type { RunLease } from '../slots/leases.ts';
import type { ModelSlots } from '../slots/model-slots.ts';
import { cancellation } from '../waiting.ts';
import { PendingItem, type Segment, type SubmitOptions } from './batch-item.ts';
import { type BatchLimits, dueBatches, planBatch, type Turn } from './batch-planner.ts';
import { BatchCounters } from './batch-stats.ts';

export interface BatcherLimits extends BatchLimits {
  /** Longest wait for other segments of the batch, counted from the oldest waiting segment. */
  readonly maxWaitMs: number;
}

/** The segments that run in one native call. */
export interface StartedBatch {
  readonly model: string;
  readonly slot: number;
  readonly segments: readonly Segment[];
}

/**
 * Called when a batch starts. The function that it returns is called when the batch ends, with the error if the whole call
 * failed. Neither may throw.
 */
export type BatchWatch = (batch: StartedBatch) => (error?: WavepoolError) => void;

export interface BatcherOptions {
  /** Names the model in errors. */
  readonly label: string;
  readonly clock: Clock;
  readonly slots: ModelSlots;
  /** The pool to run on, asked for under a slot lease. A rejection fails the segments that the lease was meant for. */
  readonly pool: () => Promise<SessionPool>;
  readonly limits: BatcherLimits;
  readonly watch?: BatchWatch | undefined;
  /** Called when a batch has given its lease back; must not throw. */
  readonly onBatchEnd?: (() => void) | undefined;
}

/** Says that a job will still submit segments, so that it is worth waiting for them. */
export interface Expectation extends Disposable {
  /** Idempotent. */
  done(): void;
}

interface LeaseRequest {
  readonly epoch: number;
  readonly abandon: AbortController;
}

export class Batcher {
  readonly #label: string;
  readonly #clock: Clock;
  readonly #slots: ModelSlots;
  readonly #pool: () => Promise<SessionPool>;
  readonly #watch: BatchWatch;
  readonly #onBatchEnd: () => void;
  readonly #counters = new BatchCounters();
  readonly #idleListeners = new Set<() => void>();
  #limits: BatcherLimits;
  #queue: PendingItem[] = [];
  /** In the order in which they were made. */
  #leaseRequests: LeaseRequest[] = [];
  #waitTimer: Timer | undefined;
  #expected = 0;
  #turn: Turn = 'oldest';
  #draining = false;

  constructor(options: BatcherOptions) {
    this.#label = options.label;
    this.#clock = options.clock;
    this.#slots = options.slots;
    this.#pool = options.pool;
    this.#watch = options.watch ?? (() => () => undefined);
    this.#onBatchEnd = options.onBatchEnd ?? (() => undefined);
    this.#limits = options.limits;
    this.#slots.beforeBarrier(() => this.#holdPlaces());
  }

  /** Takes effect with the next batch formed. */
  configure(limits: BatcherLimits): void {
    this.#limits = limits;
    this.#pump();
  }

  /**
   * Runs a segment in some batch.
   * @throws {WavepoolError} BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED (or the signal's own error), SHUTTING_DOWN,
   * INVALID_REQUEST, or what native code reported for this segment.
   */
  submit(segment: Segment, options: SubmitOptions = {}): Promise<TaskResult> {
    return new Promise((resolve, reject) => {
      if (this.#draining) throw this.#shuttingDown();
      if (options.signal?.aborted) throw cancellation(options.signal);
      const label = `a segment of job ${segment.jobId}`;
      const refusal = this.#slots.refusal({ timeoutMs: options.busyTimeoutMs ?? 0, label });
      if (refusal) throw refusal;
      const item = new PendingItem(segment, this.#slots.epoch, this.#clock.now(), {
        resolve,
        reject,
        ended: ({ seconds }, end) => this.#counters.itemEnded(end, seconds),
      });
      item.watch(this.#clock, options, () => this.#leave(item));
      this.#queue.push(item);
      this.#pump();
    });
  }

  /** While an expectation is open, segments may wait for others to share their batch. */
  expectMore(): Expectation {
    this.#expected += 1;
    let open = true;
    const done = (): void => {
      if (!open) return;
      open = false;
      this.#expected -= 1;
      this.#pump();
    };
    return { done, [Symbol.dispose]: done };
  }

  /** Lease requests of this batcher that `ModelSlots` counts as waiting or has just granted. */
  get leaseRequests(): number {
    return this.#leaseRequests.length;
  }

  /** Whether no segment is queued or running. */
  get idle(): boolean {
    return this.#queue.length === 0 && this.#counters.runningBatches === 0;
  }

  /** A segment that has its slot and waits for the model to be loaded does not count as queued. */
  stats(): BatchStats {
    const queued = this.#unadmitted;
    const queuedSeconds = queued.reduce((sum, item) => sum + item.seconds, 0);
    return this.#counters.snapshot(queued.length, queuedSeconds);
  }

  /** Refuses new segments (SHUTTING_DOWN) and waits until the queued and the running ones have ended. */
  drain(signal?: AbortSignal): Promise<void> {
    this.#draining = true;
    this.#pump();
    return new Promise((resolve, reject) => {
      if (this.idle) return resolve();
      if (signal?.aborted) throw cancellation(signal);
      const finish = (): void => {
        this.#idleListeners.delete(finish);
        signal?.removeEventListener('abort', onAbort);
        if (signal?.aborted && !this.idle) reject(cancellation(signal));
        else resolve();
      };
      const onAbort = finish;
      this.#idleListeners.add(finish);
      signal?.addEventListener('abort', onAbort);
    });
  }

  /** Refuses new and queued segments (SHUTTING_DOWN) and waits for the running ones. Idempotent. */
  async close(): Promise<void> {
    this.dismiss();
    await this.drain();
  }

  /** Refuses new and queued segments (SHUTTING_DOWN). Idempotent. */
  dismiss(): void {
    this.#draining = true;
    this.#failQueued(() => true, this.#shuttingDown());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Asks for as many leases as batches are due, and arms the timer for those that are not yet. */
  #pump(): void {
    this.#waitTimer?.cancel();
    this.#waitTimer = undefined;
    const due = this.#due(this.#unadmitted.filter(({ epoch }) => epoch === this.#slots.epoch));
    this.#requestLeases(due.count);
    this.#abandonSurplus();
    if (due.nextAtMs !== undefined) {
      const delayMs = Math.max(0, due.nextAtMs - this.#clock.now());
      this.#waitTimer = this.#clock.setTimer(delayMs, () => this.#pump());
    }
    if (this.idle) for (const listener of [...this.#idleListeners]) listener();
  }

  #due(items: readonly PendingItem[]) {
    const expectMore = this.#expected > 0 && !this.#draining;
    return dueBatches(items, this.#limits, this.#clock.now(), expectMore);
  }

  /**
   * A manager is about to join. From now on the queue of this epoch can only shrink, and every lease granted before
   * the manager admits at least one segment, so one request per segment is always enough; surplus ones are abandoned.
   */
  #holdPlaces(): void {
    const { epoch } = this.#slots;
    this.#requestLeases(this.#unadmitted.filter((item) => item.epoch === epoch).length);
  }

  /** Brings the requests of the current epoch up to `count`. */
  #requestLeases(count: number): void {
    const { epoch } = this.#slots;
    const present = this.#leaseRequests.filter((request) => request.epoch === epoch).length;
    for (let index = present; index < count; index += 1) this.#requestLease(epoch);
  }

  #requestLease(epoch: number): void {
    const request: LeaseRequest = { epoch, abandon: new AbortController() };
    const { signal } = request.abandon;
    const gone = (): void => {
      this.#leaseRequests = this.#leaseRequests.filter((other) => other !== request);
    };
    this.#leaseRequests.push(request);
    // Not awaited: both callbacks end every segment they take, so nothing is left to report.
    void this.#slots.acquireRun({ timeoutMs: 0, label: this.#label, signal }).then(
      (lease) => {
        gone();
        return this.#onGranted(lease, epoch);
      },
      (thrown: unknown) => {
        gone();
        if (signal.aborted) return;
        this.#failQueued((item) => item.epoch <= epoch, toWavepoolError(thrown));
      },
    );
  }

  /** Withdraws the youngest requests of an epoch that has fewer segments than requests. */
  #abandonSurplus(): void {
    const left = new Map<number, number>();
    for (const { epoch } of this.#unadmitted) left.set(epoch, (left.get(epoch) ?? 0) + 1);
    const surplus = this.#leaseRequests.filter(({ epoch }) => {
      const segments = left.get(epoch) ?? 0;
      left.set(epoch, segments - 1);
      return segments <= 0;
    });
    this.#leaseRequests = this.#leaseRequests.filter((request) => !surplus.includes(request));
    for (const { abandon } of surplus) abandon.abort();
  }

  /** Segments that no lease has been granted for. */
  get #unadmitted(): PendingItem[] {
    return this.#queue.filter((item) => !item.admitted);
  }

  /**
   * Admits segments, makes sure of the pool, and serves them. Whatever happens, every segment that was admitted has
   * ended when the lease goes back: no other one is coming for it. Never rejects.
   */
  async #onGranted(lease: RunLease, epoch: number): Promise<void> {
    const own = this.#plan(this.#eligible(epoch)).batch;
    for (const item of own) item.admitted = true;
    try {
      if (own.length > 0) await this.#serve(lease.slot, await this.#pool(), epoch, own);
    } catch (thrown) {
      this.#failQueued((item) => own.includes(item), toWavepoolError(thrown));
    } finally {
      lease.release();
      if (own.length > 0) this.#onBatchEnd();
      this.#pump();
    }
  }

  /** The segments that a lease of `epoch` may take. Those before a manager wait for no others any more: all are due. */
  #eligible(epoch: number): readonly PendingItem[] {
    const before = this.#unadmitted.filter((item) => item.epoch <= epoch);
    return epoch < this.#slots.epoch ? before : this.#due(before).candidates;
  }

  #plan(candidates: readonly PendingItem[]) {
    return planBatch(candidates, this.#limits, this.#turn);
  }

  /** One batch of what was admitted and what has become due since; more only where the pool takes fewer at once. */
  async #serve(
    slot: number,
    pool: SessionPool,
    epoch: number,
    own: readonly PendingItem[],
  ): Promise<void> {
    const left = () => own.filter((item) => this.#queue.includes(item));
    let candidates = [...left(), ...this.#eligible(epoch)];
    while (candidates.length > 0) {
      const { batch, nextTurn } = this.#plan(candidates);
      this.#queue = this.#queue.filter((item) => !batch.includes(item));
      const started = batch.filter((item) => item.start(slot));
      if (started.length > 0) {
        this.#turn = nextTurn;
        const running = this.#run(slot, pool, started);
        this.#pump();
        await running;
      }
      candidates = left();
    }
  }

  /** Never rejects: it ends each of the segments itself. */
  async #run(slot: number, pool: SessionPool, items: readonly PendingItem[]): Promise<void> {
    const startedAtMs = this.#clock.now();
    this.#counters.batchStarted(items.length);
    const segments = items.map(({ segment }) => segment);
    const ended = this.#watch({ model: this.#label, slot, segments });
    try {
      const outcomes = await this.#runNative(pool, slot, items);
      outcomes.forEach((outcome, index) => {
        items[index]?.settle(outcome);
      });
      ended();
    } catch (thrown) {
      const error = toWavepoolError(thrown);
      for (const item of items) item.fail(error);
      ended(error);
    } finally {
      this.#counters.batchEnded(items.length, this.#clock.now() - startedAtMs);
    }
  }

  /**
   * Settles items as they end.
   * @throws {WavepoolError} INTERNAL when native code answered for other items than it was given
   */
  async #runNative(
    pool: SessionPool,
    slot: number,
    items: readonly PendingItem[],
  ): Promise<readonly TaskOutcome[]> {
    const tasks = items.map((item) => item.task);
    const strays: number[] = [];
    const run = pool.run(slot, tasks, (index, outcome) => {
      const item = items[index];
      if (item) item.settle(outcome);
      else strays.push(index);
    });
    const outcomes = await run.done;
    if (outcomes.length !== items.length || strays.length > 0) {
      throw new WavepoolError(
        'INTERNAL',
        `native code answered ${outcomes.length} of ${items.length} items, with stray indexes [${strays}]`,
      );
    }
    return outcomes;
  }

  #leave(item: PendingItem): void {
    this.#queue = this.#queue.filter((other) => other !== item);
    this.#pump();
  }

  #failQueued(chosen: (item: PendingItem) => boolean, error: WavepoolError): void {
    const failed = this.#queue.filter(chosen);
    this.#queue = this.#queue.filter((item) => !failed.includes(item));
    for (const item of failed) item.fail(error);
    this.#pump();
  }

  #shuttingDown(): WavepoolError {
    return new WavepoolError('SHUTTING_DOWN', `${this.#label} accepts no more work`);
  }
}
