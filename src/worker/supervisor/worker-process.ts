/** One worker process as its supervisor sees it: its messages over IPC, the jobs it holds, and how it ends. */
import { type ChildProcess, fork } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { isErrorCode, toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { packageFolder } from '../../core/package-folder.ts';
import {
  ALIVE_MS,
  type Blame,
  type HeldJob,
  parseWorkerMessage,
  type SupervisorMessage,
  type WorkerMessage,
} from '../../core/worker/ipc.ts';
import type { WorkerPresence } from '../../core/worker/status.ts';
import type { WorkerSettings } from '../../core/worker/worker-settings.ts';
import { HangWatch } from './hang-watch.ts';

const WORKER_SCRIPT = packageFolder('dist', 'workers', 'audio-worker.js');
/** V8's young generation in MiB. Its default, 16, needs some 30 MiB more for each worker and makes nothing faster here. */
const YOUNG_GENERATION = '--max-semi-space-size=4';
/** After its drain deadline a worker gets this long to end by itself. */
const KILL_AFTER_MS = 5_000;

/** What a worker process held of one queue. */
export interface HeldOfQueue {
  /** The jobs that it reported, oldest first. */
  readonly jobs: readonly HeldJob[];
  /** Jobs that it had taken but not reported yet are locked with one of these ids. */
  readonly workerIds: readonly string[];
}

export type HeldByQueue = ReadonlyMap<string, HeldOfQueue>;

export interface WorkerEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface WorkerProcessOptions {
  /** With a promise, the process starts while the settings are still being made. */
  readonly settings: WorkerSettings | Promise<WorkerSettings>;
  readonly workerScript: string | undefined;
  readonly logger: Logger;
}

/** A job that had not been started cannot have ended its worker. */
interface TakenJob extends HeldJob {
  readonly started: boolean;
}

export class WorkerProcess extends EventEmitter<{ status: [WorkerPresence] }> {
  readonly pid: number;
  /** Settles once: the worker takes jobs, or the reason why it never will. */
  readonly ready: Promise<void>;
  readonly ended: Promise<WorkerEnd>;
  readonly #child: ChildProcess;
  /** Set when the settings are sent: before that the process sends no messages. */
  #hang: HangWatch | undefined;
  readonly #held = new Map<string, Map<string, TakenJob>>();
  /** For each queue, the ids under which the worker takes jobs. */
  readonly #workerIds = new Map<string, string[]>();
  /** Why this side ends it. */
  #ending: 'on-purpose' | 'hangs' | undefined;
  #end: WorkerEnd | undefined;
  #becomeReady: () => void = () => undefined;
  #refuse: (reason: WavepoolError) => void = () => undefined;

  constructor({ settings, workerScript = WORKER_SCRIPT, logger }: WorkerProcessOptions) {
    super();
    this.ready = new Promise((resolve, reject) => {
      this.#becomeReady = resolve;
      this.#refuse = reject;
    });
    // Whoever waits for `ready` sees its failure; a supervisor that is closing does not wait.
    this.ready.catch(() => undefined);
    this.#child = fork(workerScript, [], {
      execArgv: [...process.execArgv, YOUNG_GENERATION],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.pid = this.#child.pid ?? -1;
    this.#child.on('message', (raw) => this.#receive(raw, logger));
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (cause) => {
        this.#refuse(new WavepoolError('INTERNAL', cause.message, { cause }));
        if (this.#child.pid === undefined) resolve({ exitCode: null, signal: null });
      });
      this.#child.once('exit', (exitCode, signal) => {
        const how = signal ? `signal ${signal}` : `exit code ${exitCode}`;
        this.#refuse(new WavepoolError('WORKER_CRASHED', `it ended while starting (${how})`));
        this.#end = { exitCode, signal };
        resolve(this.#end);
      });
    });
    const ticks = setInterval(() => this.#tick(logger), ALIVE_MS).unref();
    void this.ended.then(() => clearInterval(ticks));
    void this.#tellSettings(settings);
  }

  /** The jobs that it holds, or held when it ended. */
  get held(): HeldByQueue {
    const blame = this.#blame();
    const judged = ({ started, ...job }: TakenJob): HeldJob => {
      return { ...job, blame: started ? blame : 'none' };
    };
    const ofQueue = (queue: string): HeldOfQueue => {
      const jobs = [...this.#jobsOf(queue).values()].map(judged);
      return { jobs, workerIds: this.#workerIds.get(queue) ?? [] };
    };
    const queues = new Set([...this.#workerIds.keys(), ...this.#held.keys()]);
    return new Map([...queues].map((queue) => [queue, ofQueue(queue)]));
  }

  async #tellSettings(settings: WorkerSettings | Promise<WorkerSettings>): Promise<void> {
    try {
      const start = await settings;
      this.#hang = new HangWatch(Math.ceil(start.hangLimitMs / ALIVE_MS));
      this.#send({ type: 'start', settings: start });
    } catch (error) {
      this.#refuse(toWavepoolError(error));
    }
  }

  #blame(): Blame {
    if (this.#ending === 'on-purpose') return 'none';
    return this.#end?.signal === 'SIGKILL' && this.#ending === undefined ? 'killed' : 'crashed';
  }

  /** Asks the worker to drain, and kills it when it does not end in time. */
  async shutdown(deadlineMs: number): Promise<void> {
    this.#send({ type: 'shutdown', deadlineMs });
    const timer = new AbortController();
    const late = delay(deadlineMs + KILL_AFTER_MS, true, { signal: timer.signal });
    const isLate = await Promise.race([this.ended.then(() => false), late]);
    timer.abort();
    late.catch(() => undefined);
    if (isLate) this.kill();
    await this.ended;
  }

  /** Ends it now, because somebody wants it to end: its jobs are not charged with a crash. */
  kill(): void {
    this.#ending = 'on-purpose';
    this.#child.kill('SIGKILL');
  }

  #tick(logger: Logger): void {
    const hang = this.#hang?.tick();
    if (hang === undefined) return;
    const what = hang === 'silent' ? 'its event loop stands still' : 'native code does not return';
    logger.error({ pid: this.pid }, `a worker hangs and is ended: ${what}`);
    this.#ending ??= 'hangs';
    this.#child.kill('SIGKILL');
  }

  #send(message: SupervisorMessage): void {
    // That a worker is gone is noticed by its exit.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  #receive(raw: unknown, logger: Logger): void {
    const message = parseWorkerMessage(raw);
    if (message === undefined) logger.warn({ pid: this.pid }, 'unknown message from a worker');
    else this.#handle(message);
  }

  #handle(message: WorkerMessage): void {
    switch (message.type) {
      case 'ready':
        this.#becomeReady();
        return;
      case 'taking':
        this.#workerIds.set(message.queue, [
          ...(this.#workerIds.get(message.queue) ?? []),
          message.workerId,
        ]);
        return;
      case 'held':
        this.#jobsOf(message.queue).set(message.jobId, {
          jobId: message.jobId,
          token: message.token,
          started: false,
        });
        return;
      case 'started': {
        const jobs = this.#jobsOf(message.queue);
        const job = jobs.get(message.jobId);
        if (job !== undefined) jobs.set(message.jobId, { ...job, started: true });
        return;
      }
      case 'released':
        this.#jobsOf(message.queue).delete(message.jobId);
        return;
      case 'alive':
        this.#hang?.alive(message.oldestRun);
        return;
      case 'status':
        this.emit('status', message.status);
        return;
      case 'failed': {
        const code = isErrorCode(message.code) ? message.code : 'INTERNAL';
        this.#refuse(new WavepoolError(code, message.detail));
        return;
      }
      default:
        message satisfies never;
    }
  }

  #jobsOf(queue: string): Map<string, TakenJob> {
    const jobs = this.#held.get(queue) ?? new Map<string, TakenJob>();
    this.#held.set(queue, jobs);
    return jobs;
  }
}
