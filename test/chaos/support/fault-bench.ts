/**
 * What a scenario happens on: a Redis, supervised worker processes over the fake families, a producer that waits while Redis
 * is away, and the account of all jobs. Everything is real but the weights.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ErrorCode } from '../../../src/core/errors.ts';
import { createLogger } from '../../../src/core/logger.ts';
import {
  WorkerSettings,
  type WorkerSettingsInput,
} from '../../../src/core/worker/worker-settings.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import type { RedisAddress } from '../../../src/queue/redis/connection.ts';
import { Supervisor } from '../../../src/worker/supervisor/supervisor.ts';
import { writeFakeModel } from '../../engine/fake-model.ts';
import { TEST_ADDON } from '../../engine/test-addon.ts';
import { ensure, type ScenarioContext, type ScenarioOutcome } from '../scenario.ts';
import { PLAIN_SECONDS, writeFaultPlan } from './fault-plan.ts';
import { type Expected, Ledger, type LedgerSources } from './ledger.ts';
import { makeRecording, type Recording } from './recordings.ts';
import { RedisServer, type RedisServerOptions } from './redis-server.ts';

export const CHAOS_MODEL = 'chaos';
/** Recordings that differ; jobs beyond them share one. */
const RECORDINGS = 6;
/** Lost events are made up for by looking at the jobs themselves. */
const RECONCILE_MS = 1_000;

export interface BenchOptions {
  /** Worker processes. @defaultValue 1; 0 leaves starting them to the scenario */
  readonly workers?: number;
  /** Served by every worker, each with a queue of its own. @defaultValue 1 */
  readonly models?: number;
  /** Most segments in one native batch. @defaultValue 4 */
  readonly batch?: number;
  /** Of each worker. @defaultValue 1 */
  readonly slots?: number;
  /** Every batch takes at least so long. */
  readonly paceMs?: number;
  readonly blockMs?: number;
  /** Batches leave notes. */
  readonly notes?: boolean;
  readonly settings?: Partial<WorkerSettingsInput>;
  readonly redis?: Omit<RedisServerOptions, 'folder'>;
  /** What stands between everybody and Redis; gets the folder of the bench and the server's socket. */
  readonly through?: (folder: string, socket: string) => Promise<Passage>;
}

export interface Passage extends AsyncDisposable {
  readonly address: RedisAddress;
}

export interface Addition {
  /** @defaultValue PLAIN_SECONDS */
  readonly seconds?: number;
  /** @defaultValue that it completes with its text */
  readonly expected?: readonly Expected[];
  /** May end with this one instead. */
  readonly orCode?: ErrorCode;
  readonly clocks?: { timeoutMs?: number; busyTimeoutMs?: number; deadlineAt?: number };
  /** @defaultValue that of jobs */
  readonly attempts?: number;
  readonly priority?: number;
  /** For which of the models, from 0. @defaultValue 0 */
  readonly model?: number;
}

export class FaultBench implements AsyncDisposable {
  readonly folder: string;
  readonly redis: RedisServer;
  /** Where everybody finds Redis. */
  readonly address: RedisAddress;
  readonly settings: WorkerSettings;
  /** Of the first model. */
  readonly queue: AudioQueue;
  /** Of each model. */
  readonly queues: readonly AudioQueue[];
  readonly supervisor: Supervisor;
  readonly ledger = new Ledger();
  readonly #passage: Passage | undefined;
  readonly #recordings = new Map<string, Recording>();
  /** Of jobs that `add` added. */
  readonly #queueOf = new Map<string, AudioQueue>();
  /** Times of all ends so far, by `performance.now()`. */
  readonly #ends: number[] = [];
  readonly #endListeners = new Set<() => void>();
  #added = 0;

  private constructor(parts: {
    folder: string;
    redis: RedisServer;
    address: RedisAddress;
    passage: Passage | undefined;
    settings: WorkerSettings;
    queues: readonly [AudioQueue, ...AudioQueue[]];
    supervisor: Supervisor;
  }) {
    this.folder = parts.folder;
    this.redis = parts.redis;
    this.address = parts.address;
    this.#passage = parts.passage;
    this.settings = parts.settings;
    this.queues = parts.queues;
    [this.queue] = parts.queues;
    this.supervisor = parts.supervisor;
    const ended = (): void => {
      this.#ends.push(performance.now());
      for (const listener of this.#endListeners) listener();
    };
    for (const queue of this.queues) queue.on('completed', ended).on('failed', ended);
  }

  static async open({ programs }: ScenarioContext, options: BenchOptions = {}) {
    const folder = await mkdtemp(join(tmpdir(), 'wavepool-chaos-'));
    const { workers = 1, paceMs = 0, blockMs = 0, notes = false, through } = options;
    const redis = await RedisServer.start({ ...options.redis, folder });
    const passage = await through?.(folder, redis.socket);
    const address = passage?.address ?? redis.address;
    writeFaultPlan(folder, { paceMs, blockMs, notes });
    const settings = settingsOf(folder, address, options);
    const open = (model: string) =>
      AudioQueue.open({
        address,
        model,
        whenDisconnected: 'wait',
        reconcileIntervalMs: RECONCILE_MS,
      });
    const [, ...others] = settings.models;
    const queues = [
      await open(CHAOS_MODEL),
      ...(await Promise.all(others.map(({ id }) => open(id)))),
    ] as const;
    const supervisor = new Supervisor({
      settings,
      workers,
      logger: createLogger('silent', 'chaos'),
      handBack: async (held) => {
        for (const queue of queues) {
          const { jobs = [], workerIds = [] } = held.get(queue.name) ?? {};
          await queue.handBack(jobs, workerIds);
        }
      },
      workerScript: programs.worker,
    });
    const bench = new FaultBench({ folder, redis, address, passage, settings, queues, supervisor });
    await supervisor.start();
    return bench;
  }

  /** Jobs ended so far. */
  get ended(): number {
    return this.#ends.length;
  }

  /** Jobs that `add` added and that have not ended. */
  get outstanding(): number {
    return this.#added - this.ended;
  }

  /** Adds jobs and what is to become of them to the account. */
  async add(count: number, addition: Addition = {}): Promise<string[]> {
    const { seconds = PLAIN_SECONDS, expected, orCode, model = 0, ...rest } = addition;
    const queue = this.queues[model] ?? this.queue;
    const jobs = Array.from({ length: count }, () => {
      const id = `job-${this.#added}`;
      const { path, text } = this.#recording(seconds, this.#added % RECORDINGS);
      this.#added += 1;
      const other = orCode === undefined ? [] : [{ code: orCode }];
      this.ledger.expect(id, ...(expected ?? [{ text }]), ...other);
      const input = { kind: 'path', path } as const;
      return { id, input, ...rest };
    });
    for (const { id } of jobs) this.#queueOf.set(id, queue);
    return queue.addMany(jobs);
  }

  /** Resolves when so many more jobs have ended, whatever their end. Call before jobs are added that may end soon. */
  async moreEnds(count: number): Promise<void> {
    const goal = this.#ends.length + count;
    await this.until(() => this.#ends.length >= goal);
  }

  /** Resolves when one more job that `add` added has ended, or none is left that could. */
  async nextEnd(): Promise<void> {
    const before = this.ended;
    await this.until(() => this.ended > before || this.outstanding <= 0);
  }

  /** Resolves when this holds; looked at after each end of a job. */
  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!holds()) return;
        this.#endListeners.delete(look);
        resolve();
      };
      this.#endListeners.add(look);
      look();
    });
  }

  /** Resolves when a slot next takes up this job, or any. Call before jobs are added that may begin soon. */
  nextRun(jobId?: string): Promise<void> {
    return new Promise((resolve) => {
      this.queue.on('progress', ({ id, progress }) => {
        if (progress.phase === 'running' && (jobId ?? id) === id) resolve();
      });
    });
  }

  queueOf(jobId: string): AudioQueue {
    return this.#queueOf.get(jobId) ?? this.queue;
  }

  /** Resolves when these jobs have ended, however. */
  async ends(ids: readonly string[]): Promise<void> {
    await Promise.allSettled(ids.map((id) => this.queueOf(id).waitFor(id)));
  }

  /** Resolves when every job of the account has ended. */
  async allEnded(): Promise<void> {
    await this.ends(this.ledger.ids);
  }

  /** The process id of a worker; after the last one died, of the next one that started. */
  async liveWorker(): Promise<number> {
    for (;;) {
      const [pid] = this.supervisor.pids;
      if (pid !== undefined) return pid;
      await once(this.supervisor, 'status');
    }
  }

  /** From then, by `performance.now()`, to the next end of a job. */
  recoveryAfter(momentMs: number): number | null {
    const next = this.#ends.find((end) => end >= momentMs);
    return next === undefined ? null : Math.round(next - momentMs);
  }

  /** The account as an outcome; names what is wrong on standard error. */
  async outcome(recoveryMs: number | null, times = 1): Promise<ScenarioOutcome> {
    const { findings, ...counts } = await this.ledger.account(this.#sources);
    for (const finding of findings) process.stderr.write(`chaos: ${finding}\n`);
    ensure(counts.jobs > 0, 'the scenario had no jobs');
    return { times, recoveryMs, ...counts };
  }

  /** Looks at what became of the jobs that have ended, and forgets them. */
  async settle(): Promise<void> {
    for (const id of await this.ledger.settle(this.#sources)) this.#queueOf.delete(id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.supervisor.kill();
    await Promise.all(this.queues.map((queue) => queue.close()));
    await this.#passage?.[Symbol.asyncDispose]();
    await this.redis[Symbol.asyncDispose]();
    await rm(this.folder, { recursive: true, force: true });
  }

  get #sources(): LedgerSources {
    const { connection } = this.redis;
    return { queues: this.queues, connection, resultsDir: this.settings.resultsDir };
  }

  #recording(seconds: number, seed: number): Recording {
    const key = `${seconds} ${seed}`;
    const known = this.#recordings.get(key);
    if (known !== undefined) return known;
    const made = makeRecording(this.folder, seconds, seed + 1);
    this.#recordings.set(key, made);
    return made;
  }
}

function settingsOf(folder: string, redis: RedisAddress, options: BenchOptions): WorkerSettings {
  const { batch = 4, slots = 1, models = 1, settings } = options;
  const recognizer = writeFakeModel(join(folder, 'model.gguf'));
  const detector = writeFakeModel(join(folder, 'vad.gguf'), {
    architecture: 'fake-vad',
    maxSegmentSeconds: 0,
  });
  return WorkerSettings.parse({
    redis,
    resultsDir: join(folder, 'results'),
    uploadsDir: join(folder, 'uploads'),
    models: Array.from({ length: models }, (_, at) => {
      const id = at === 0 ? CHAOS_MODEL : `${CHAOS_MODEL}-${at}`;
      return { id, path: recognizer, slots, batch, threads: 1 };
    }),
    detector: { id: 'fake-vad', path: detector },
    unvalidatedSlots: slots > 1 ? slots : 0,
    addonPath: TEST_ADDON,
    logLevel: 'silent',
    ...settings,
  });
}
