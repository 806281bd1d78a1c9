import { WavepoolError } from '../../core/errors.ts';
import type { Span } from '../../core/tracing.ts';
import type { Clock, Timer } from '../clock.ts';
import { SAMPLE_RATE, type TaskItem, type TaskOutcome, type TaskResult } from '../engine.ts';
import { cancellation, waitedTooLong } from '../waiting.ts';
import type { Candidate } from './batch-planner.ts';
import type { ItemEnd } from './batch-stats.ts';

/** One segment, as a job hands it to the batcher. */
export interface Segment {
  readonly jobId: string;
  /** Order in which the jobs were accepted. */
  readonly jobSequence: number;
  /** Lower runs first, as in BullMQ. */
  readonly priority: number;
  /** Only segments with equal keys share a batch. A key names everything that changes the compute graph. */
  readonly key: string;
  /** Audio of the job that is not transcribed yet, this segment included. */
  readonly jobRemainingSeconds: number;
  readonly task: TaskItem;
  /** Whether it runs in a batch of its own. @defaultValue false */
  readonly alone?: boolean | undefined;
  /** The tracing span of this segment. */
  readonly span?: Span | undefined;
  /** Called when a slot picks the segment up, just before native code runs; a throw fails this segment only. */
  readonly onStart?: ((slot: number) => void) | undefined;
}

export interface SubmitOptions {
  /** A queued segment leaves at once. Native code, which gets the signal too, drops a running one as soon as it can. */
  readonly signal?: AbortSignal | undefined;
  /** Bound on the wait for a slot, and threshold for "overdue"; 0 = neither. @defaultValue 0 */
  readonly busyTimeoutMs?: number | undefined;
}

interface Settlement {
  resolve(result: TaskResult): void;
  reject(error: WavepoolError): void;
  ended(item: PendingItem, end: ItemEnd): void;
}

/**
 * One submitted segment: `queued` → `running` → `ended`, or `queued` → `ended`. Each transition happens once; the
 * promise of the submission is settled by the last.
 */
export class PendingItem implements Candidate {
  readonly segment: Segment;
  /** The epoch of `ModelSlots`: items of an earlier epoch run before a manager that items of a later epoch wait for. */
  readonly epoch: number;
  readonly arrivedAtMs: number;
  readonly seconds: number;
  readonly #settlement: Settlement;
  #admitted = false;
  #state: 'queued' | 'running' | 'ended' = 'queued';
  #signal: AbortSignal | undefined;
  #onAbort: (() => void) | undefined;
  #busyTimer: Timer | undefined;

  /** @throws {WavepoolError} INVALID_REQUEST for an empty range. */
  constructor(segment: Segment, epoch: number, arrivedAtMs: number, settlement: Settlement) {
    const { startSample, endSample } = segment.task;
    if (!(endSample > startSample)) {
      throw new WavepoolError('INVALID_REQUEST', `empty segment [${startSample}, ${endSample})`);
    }
    this.segment = segment;
    this.epoch = epoch;
    this.arrivedAtMs = arrivedAtMs;
    this.seconds = (endSample - startSample) / SAMPLE_RATE;
    this.#settlement = settlement;
  }

  get jobId(): string {
    return this.segment.jobId;
  }
  get jobSequence(): number {
    return this.segment.jobSequence;
  }
  get priority(): number {
    return this.segment.priority;
  }
  get jobRemainingSeconds(): number {
    return this.segment.jobRemainingSeconds;
  }
  get key(): string {
    return this.segment.key;
  }
  get alone(): boolean {
    return this.segment.alone ?? false;
  }
  /** Whether a slot is leased for it, so that it waits only for the model. Its busy timeout no longer counts then. */
  get admitted(): boolean {
    return this.#admitted;
  }
  set admitted(value: boolean) {
    this.#admitted = value;
    if (value) this.#busyTimer?.cancel();
  }
  get ended(): boolean {
    return this.#state === 'ended';
  }

  /** Bounds the wait, until the item starts. @param leave takes the item out of the batcher's queue. */
  watch(clock: Clock, { signal, busyTimeoutMs = 0 }: SubmitOptions, leave: () => void): void {
    if (busyTimeoutMs > 0) {
      this.#busyTimer = clock.setTimer(busyTimeoutMs, () => {
        this.fail(waitedTooLong(`a segment of job ${this.jobId}`, busyTimeoutMs));
        leave();
      });
    }
    if (!signal) return;
    this.#signal = signal;
    this.#onAbort = () => {
      this.#cancel(signal);
      leave();
    };
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** The task that native code gets. From then on native code listens to the signal itself. */
  get task(): TaskItem {
    return { ...this.segment.task, signal: this.#signal };
  }

  /** A slot has picked the item up: admission is over. @returns false when its listener failed it. */
  start(slot: number): boolean {
    this.#state = 'running';
    this.#stopWatching();
    try {
      this.segment.onStart?.(slot);
    } catch (thrown) {
      this.fail(new WavepoolError('INTERNAL', 'onStart of a segment threw', { cause: thrown }));
    }
    return !this.ended;
  }

  settle(outcome: TaskOutcome): void {
    if (!outcome.ok) this.fail(outcome.error);
    else if (this.#end('completed')) this.#settlement.resolve(outcome.result);
  }

  /** A cancelled item reports why its signal was aborted, whichever way native code worded it. */
  fail(error: WavepoolError): void {
    const signal = this.#signal;
    if (signal?.aborted && error.code === 'CANCELLED') this.#cancel(signal);
    else if (this.#end('failed')) this.#settlement.reject(error);
  }

  #cancel(signal: AbortSignal): void {
    if (this.#end('cancelled')) this.#settlement.reject(cancellation(signal));
  }

  #end(end: ItemEnd): boolean {
    if (this.ended) return false;
    this.#state = 'ended';
    this.#stopWatching();
    this.#settlement.ended(this, end);
    return true;
  }

  #stopWatching(): void {
    this.#busyTimer?.cancel();
    if (this.#onAbort) this.#signal?.removeEventListener('abort', this.#onAbort);
  }
}
