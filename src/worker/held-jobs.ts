/** The jobs that this worker process holds under locks right now, each with what can end it early. */
import { WavepoolError } from '../core/errors.ts';
import type { WorkerMessage } from '../core/ipc.ts';
import type { JobClocks } from '../core/job.ts';

/** Aborts a job that no longer belongs to this worker: whatever it would still do must stay without effect. */
export class LockLostError extends Error {
  override readonly name = 'LockLostError';
}

interface HeldEntry {
  readonly queue: string;
  readonly jobId: string;
  readonly abort: AbortController;
  readonly timers: readonly NodeJS.Timeout[];
}

/** `setTimeout` fires at once when asked for more than this. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export class HeldJobs {
  readonly #report: (message: WorkerMessage) => void;
  readonly #entries = new Map<string, HeldEntry>();
  #ending: Error | undefined;

  constructor(report: (message: WorkerMessage) => void) {
    this.#report = report;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Tells the supervisor, starts the job's clocks, and returns the signal that ends the job. */
  hold(queue: string, jobId: string, token: string, clocks: JobClocks): AbortSignal {
    this.#report({ type: 'held', queue, jobId, token });
    const abort = new AbortController();
    const arm = (ms: number, error: () => WavepoolError) =>
      setTimeout(() => abort.abort(error()), Math.min(Math.max(ms, 0), MAX_TIMEOUT_MS)).unref();
    const timers: NodeJS.Timeout[] = [];
    if (clocks.timeoutMs > 0) {
      const { timeoutMs } = clocks;
      timers.push(arm(timeoutMs, () => new WavepoolError('JOB_TIMEOUT', `${timeoutMs} ms`)));
    }
    if (clocks.deadlineAt !== undefined) {
      const { deadlineAt } = clocks;
      const detail = new Date(deadlineAt).toISOString();
      timers.push(
        arm(deadlineAt - Date.now(), () => new WavepoolError('DEADLINE_EXCEEDED', detail)),
      );
    }
    this.#entries.set(key(queue, jobId), { queue, jobId, abort, timers });
    if (this.#ending !== undefined) abort.abort(this.#ending);
    return abort.signal;
  }

  /** Ends one job early; false when this worker does not hold it. */
  abort(queue: string, jobId: string, reason: Error): boolean {
    const entry = this.#entries.get(key(queue, jobId));
    entry?.abort.abort(reason);
    return entry !== undefined;
  }

  /** Ends every job early, also those that are still on their way here. */
  abortAll(reason: Error): void {
    this.#ending = reason;
    for (const { abort } of this.#entries.values()) abort.abort(reason);
  }

  /** The job's processor has ended: its clocks stop. The supervisor still counts it as held. */
  settle(queue: string, jobId: string): void {
    for (const timer of this.#entries.get(key(queue, jobId))?.timers ?? []) clearTimeout(timer);
    this.#entries.delete(key(queue, jobId));
  }

  /** The queue knows the job's end (or the job is another worker's now): nothing to hand back. */
  release(queue: string, jobId: string): void {
    this.settle(queue, jobId);
    this.#report({ type: 'released', queue, jobId });
  }
}

function key(queue: string, jobId: string): string {
  return `${queue}\n${jobId}`;
}
