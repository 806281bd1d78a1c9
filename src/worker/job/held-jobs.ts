/** The jobs that this worker process holds under locks right now, each with what can end it early. */
import { WavepoolError } from '../../core/errors.ts';
import type { JobClocks } from '../../core/job/job.ts';
import type { WorkerMessage } from '../../core/worker/ipc.ts';
import type { Timer } from '../../runtime/clock.ts';
import { DueCalls } from './due-calls.ts';
import { HeldReports } from './held-reports.ts';
import { Interruption } from './interruption.ts';
import type { Post } from './outbox.ts';

/** Aborts a job that no longer belongs to this worker: whatever it would still do must stay without effect. */
export class LockLostError extends Error {
  override readonly name = 'LockLostError';
}

interface HeldEntry {
  readonly timeoutMs: number;
  readonly interruption: Interruption;
  deadline?: Timer;
  timeout?: Timer;
}

export class HeldJobs {
  readonly #post: Post<WorkerMessage>;
  readonly #reports: HeldReports;
  readonly #entries = new Map<string, HeldEntry>();
  readonly #clocks = new DueCalls();
  #ending: Error | undefined;

  constructor(post: Post<WorkerMessage>) {
    this.#post = post;
    this.#reports = new HeldReports(post);
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Call before the first job is taken under this id: tells the supervisor. */
  taking(queue: string, workerId: string): void {
    this.#post({ type: 'taking', queue, workerId });
  }

  /** Tells the supervisor, starts the clock of the job's deadline, and returns what ends the job. */
  hold(queue: string, jobId: string, token: string, clocks: JobClocks): Interruption {
    this.#reports.held(queue, jobId, token);
    const { timeoutMs, deadlineAt } = clocks;
    const interruption = new Interruption();
    const entry: HeldEntry = { timeoutMs, interruption };
    if (deadlineAt !== undefined) {
      const late = () => new WavepoolError('DEADLINE_EXCEEDED', new Date(deadlineAt).toISOString());
      // One that has passed by now must not get to run until the next turn.
      if (deadlineAt <= Date.now()) interruption.abort(late());
      else {
        const abort = () => interruption.abort(late());
        entry.deadline = this.#clocks.after(deadlineAt - Date.now(), abort);
      }
    }
    this.#entries.set(key(queue, jobId), entry);
    if (this.#ending !== undefined) interruption.abort(this.#ending);
    return interruption;
  }

  /** The job runs from now on: tells the supervisor, and starts the clock of its running time. */
  start(queue: string, jobId: string): void {
    this.#reports.started(queue, jobId);
    const entry = this.#entries.get(key(queue, jobId));
    if (entry === undefined || entry.timeoutMs === 0) return;
    const { timeoutMs, interruption } = entry;
    // Hardly any job is late: an error is made, with its stack, for those that are.
    const abort = () => interruption.abort(new WavepoolError('JOB_TIMEOUT', `${timeoutMs} ms`));
    entry.timeout = this.#clocks.after(timeoutMs, abort);
  }

  /** Ends one job early; false when this worker does not hold it. */
  abort(queue: string, jobId: string, reason: Error): boolean {
    const entry = this.#entries.get(key(queue, jobId));
    entry?.interruption.abort(reason);
    return entry !== undefined;
  }

  /** Ends every job early, also those that are still on their way here. */
  abortAll(reason: Error): void {
    this.#ending = reason;
    for (const { interruption } of this.#entries.values()) interruption.abort(reason);
  }

  /** The job's processor has ended: its clocks stop. The supervisor still counts it as held. */
  settle(queue: string, jobId: string): void {
    const entry = this.#entries.get(key(queue, jobId));
    if (entry === undefined) return;
    entry.deadline?.cancel();
    entry.timeout?.cancel();
    this.#entries.delete(key(queue, jobId));
    this.#reports.settled(queue, jobId);
  }

  /** Tells the supervisor what it has not been told yet; for a process that is about to end. */
  flush(): void {
    this.#reports.flush();
  }

  /** The queue knows the job's end (or the job is another worker's now): nothing to hand back. */
  release(queue: string, jobId: string): void {
    this.settle(queue, jobId);
    this.#reports.released(queue, jobId);
  }
}

function key(queue: string, jobId: string): string {
  return `${queue}\n${jobId}`;
}
