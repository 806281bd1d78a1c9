/**
 * The jobs that this worker process holds under locks right now, each with the signal that ends it early. The supervisor is
 * told of each one before native code works for it, for that is what may take the process down. A message is in the pipe to
 * the supervisor when the call that sends it returns.
 */
import { WavepoolError } from '../../core/errors.ts';
import type { JobClocks } from '../../core/job/job.ts';
import type { WorkerMessage } from '../../core/worker/ipc.ts';
import type { Timer } from '../../runtime/clock.ts';
import { startLongTimer } from './long-timer.ts';

/** Aborts a job that no longer belongs to this worker: whatever it would still do must stay without effect. */
export class LockLostError extends Error {
  override readonly name = 'LockLostError';
}

interface HeldEntry {
  readonly timeoutMs: number;
  readonly controller: AbortController;
  deadline?: Timer;
  timeout?: Timer;
}

export class HeldJobs {
  readonly #report: (message: WorkerMessage) => void;
  readonly #entries = new Map<string, HeldEntry>();
  #ending: Error | undefined;

  /** @param report sends a message to the supervisor */
  constructor(report: (message: WorkerMessage) => void) {
    this.#report = report;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Call before the first job is taken under this id: tells the supervisor. */
  taking(queue: string, workerId: string): void {
    this.#report({ type: 'taking', queue, workerId });
  }

  /** Tells the supervisor, starts the clock of the job's deadline, and returns the signal that ends the job. */
  hold(queue: string, jobId: string, token: string, clocks: JobClocks): AbortSignal {
    this.#report({ type: 'held', queue, jobId, token });
    const { timeoutMs, deadlineAt } = clocks;
    const controller = new AbortController();
    const entry: HeldEntry = { timeoutMs, controller };
    if (deadlineAt !== undefined) {
      const abort = () =>
        controller.abort(
          new WavepoolError('DEADLINE_EXCEEDED', new Date(deadlineAt).toISOString()),
        );
      // A job whose deadline has passed must not run until the next turn of the event loop.
      if (deadlineAt <= Date.now()) abort();
      else entry.deadline = startLongTimer(deadlineAt - Date.now(), abort);
    }
    this.#entries.set(key(queue, jobId), entry);
    if (this.#ending !== undefined) controller.abort(this.#ending);
    return controller.signal;
  }

  /** The job runs from now on: tells the supervisor, and starts the clock of its running time. */
  start(queue: string, jobId: string): void {
    this.#report({ type: 'started', queue, jobId });
    const entry = this.#entries.get(key(queue, jobId));
    if (entry === undefined || entry.timeoutMs === 0) return;
    const { timeoutMs, controller } = entry;
    entry.timeout = startLongTimer(timeoutMs, () =>
      controller.abort(new WavepoolError('JOB_TIMEOUT', `${timeoutMs} ms`)),
    );
  }

  /** Ends one job early; false when this worker does not hold it. */
  abort(queue: string, jobId: string, reason: Error): boolean {
    const entry = this.#entries.get(key(queue, jobId));
    entry?.controller.abort(reason);
    return entry !== undefined;
  }

  /** Ends every job early, also those that are still on their way here. */
  abortAll(reason: Error): void {
    this.#ending = reason;
    for (const { controller } of this.#entries.values()) controller.abort(reason);
  }

  /** The job's processor has ended: its clocks stop. The supervisor still counts it as held. */
  settle(queue: string, jobId: string): void {
    const entry = this.#entries.get(key(queue, jobId));
    entry?.deadline?.cancel();
    entry?.timeout?.cancel();
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
