/**
 * Starts worker processes, keeps them alive and, when one dies, returns the jobs it held to the queue at once.
 *
 *   start() ──▶ starting ──worker(s) ready──▶ running ──close()──▶ closing ──▶ closed
 *                  └── a worker cannot start: close the others, reject with its error
 *
 * A worker that dies while running is replaced after a pause that doubles with each death in a row.
 */
import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../../core/logger.ts';
import type { WorkerPresence } from '../../core/worker/status.ts';
import type { WorkerSettings } from '../../core/worker/worker-settings.ts';
import { type HeldByQueue, WorkerProcess } from './worker-process.ts';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
/** A worker that lived this long has recovered: the next pause is short again. */
const HEALTHY_AFTER_MS = 60_000;

export interface SupervisorOptions {
  /** The first workers start while a promise of settings is still open; when it rejects, so does `start`. */
  readonly settings: WorkerSettings | Promise<WorkerSettings>;
  /** The number of worker processes. */
  readonly workers: number;
  readonly logger: Logger;
  /** Returns the jobs of a dead worker to the queue. */
  readonly handBack: (held: HeldByQueue) => Promise<void>;
  /** The worker's entry; by default the one of this package. */
  readonly workerScript?: string;
}

export interface WorkerCrash {
  readonly pid: number;
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Jobs that were handed back. */
  readonly jobs: number;
}

interface SupervisorEvents {
  crash: [WorkerCrash];
  status: [{ readonly pid: number; readonly status: WorkerPresence }];
}

export class Supervisor extends EventEmitter<SupervisorEvents> {
  readonly #options: SupervisorOptions;
  readonly #workers = new Set<WorkerProcess>();
  /** Aborted by `close` and `kill`, to end the pauses before restarts. */
  readonly #closing = new AbortController();
  /** One for each worker that is kept alive. It resolves when that worker is not replaced any more. */
  #places: Promise<void>[] = [];
  #starting: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: SupervisorOptions) {
    super();
    this.#options = options;
  }

  /** Process ids of the workers that are alive. */
  get pids(): number[] {
    return [...this.#workers].map(({ pid }) => pid);
  }

  /**
   * Resolves when every worker takes jobs, or the first one, after which the others are looked after like any that died; a
   * second call gets the same promise.
   * @throws {WavepoolError} why a worker could not start.
   */
  start(until: 'every' | 'first' = 'every'): Promise<void> {
    this.#starting ??= this.#startAll(until);
    return this.#starting;
  }

  /** Lets workers finish what they hold within the deadline, then ends them. Idempotent. */
  close({ deadlineMs }: { readonly deadlineMs: number }): Promise<void> {
    this.#closed ??= this.#closeAll(deadlineMs);
    return this.#closed;
  }

  /** Ends the workers now; their jobs go back to the queue. */
  async kill(): Promise<void> {
    this.#closing.abort();
    for (const worker of this.#workers) worker.kill();
    await Promise.all(this.#places);
  }

  async #startAll(until: 'every' | 'first'): Promise<void> {
    const first = Array.from({ length: this.#options.workers }, () => this.#spawn());
    this.#places = first.map((worker) => this.#keepAlive(worker));
    try {
      const every = Promise.all(first.map((worker) => worker.ready));
      await (until === 'every' ? every : Promise.race([every, ...first.map(({ ready }) => ready)]));
    } catch (error) {
      await this.close({ deadlineMs: 0 });
      throw error;
    }
  }

  async #closeAll(deadlineMs: number): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#workers].map((worker) => worker.shutdown(deadlineMs)));
    await Promise.all(this.#places);
  }

  #spawn(): WorkerProcess {
    const { settings, workerScript, logger } = this.#options;
    const worker = new WorkerProcess({ settings, workerScript, logger });
    this.#workers.add(worker);
    worker.on('status', (status) => this.emit('status', { pid: worker.pid, status }));
    return worker;
  }

  /** Keeps one worker alive: replaces it whenever it dies, until the supervisor closes. */
  async #keepAlive(first: WorkerProcess): Promise<void> {
    let worker = first;
    let pauseMs = FIRST_PAUSE_MS;
    for (;;) {
      const startedAt = performance.now();
      await this.#ended(worker);
      if (this.#closing.signal.aborted) return;
      if (performance.now() - startedAt > HEALTHY_AFTER_MS) pauseMs = FIRST_PAUSE_MS;
      await delay(pauseMs, undefined, { signal: this.#closing.signal }).catch(() => undefined);
      if (this.#closing.signal.aborted) return;
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      worker = this.#spawn();
      worker.ready.catch((error: unknown) => {
        this.#options.logger.error({ err: error }, 'a worker could not be restarted');
      });
    }
  }

  /** Resolves when the worker has ended and what it held is back in the queue. */
  async #ended(worker: WorkerProcess): Promise<void> {
    const { exitCode, signal } = await worker.ended;
    this.#workers.delete(worker);
    const { held, pid } = worker;
    const jobs = [...held.values()].reduce((sum, each) => sum + each.jobs.length, 0);
    // A worker that ended well has released all the jobs that it took.
    if (jobs > 0 || exitCode !== 0) await this.#handBack(held, pid);
    if (this.#closing.signal.aborted && jobs === 0) return;
    this.#options.logger.warn({ pid, exitCode, signal, jobs }, 'a worker ended');
    this.emit('crash', { pid, exitCode, signal, jobs });
  }

  async #handBack(held: HeldByQueue, pid: number): Promise<void> {
    try {
      await this.#options.handBack(held);
    } catch (error) {
      // The jobs are not lost: their locks run out, and the queue's stall check returns them.
      this.#options.logger.error({ err: error, pid }, 'jobs could not be handed back');
    }
  }
}
