/**
 * Commands about the models of a worker. They come through a queue of its own, which no other process reads, and run on the
 * runtime of this process.
 */
import { type Job, Worker } from 'bullmq';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import type { Logger } from '../../core/logger.ts';
import {
  type ControlCommand,
  ControlJob,
  type ControlledModel,
  type ControlResult,
  type ModelSettings,
} from '../../core/worker/control.ts';
import { toQueueError } from '../../queue/jobs/failures.ts';
import { openConnection, type RedisAddress } from '../../queue/redis/connection.ts';
import { controlQueueOf, queuePrefix } from '../../queue/redis/queue-names.ts';
import { type ModelConfiguration, withSettings } from '../../runtime/models/model-configuration.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { ManagementResult, Runtime } from '../../runtime/runtime.ts';

/** The most commands that are taken from Redis at once. It is high, because commands that wait must not hold up others. */
const CONCURRENCY = 1_000;
const LOCK_DURATION_MS = 60_000;

const NOTHING: ControlResult = { models: [], notFound: [] };

export interface ControlListenerOptions {
  readonly address: RedisAddress;
  readonly workerId: string;
  /** Called in the order in which commands were sent; the signal ends a wait for the model. */
  readonly run: (command: ControlCommand, signal: AbortSignal) => Promise<ControlResult>;
  readonly logger: Logger;
}

export class ControlListener {
  readonly #options: ControlListenerOptions;
  readonly #connection: ReturnType<typeof openConnection>;
  readonly #worker: Worker<unknown, ControlResult>;
  readonly #running = new Map<string, AbortController>();

  private constructor(options: ControlListenerOptions) {
    this.#options = options;
    const { address, workerId, logger } = options;
    this.#connection = openConnection(address, { role: 'patient', name: 'control' });
    this.#worker = new Worker(controlQueueOf(workerId), (job: Job) => this.#process(job), {
      connection: this.#connection,
      prefix: queuePrefix(this.#connection),
      autorun: false,
      concurrency: CONCURRENCY,
      lockDuration: LOCK_DURATION_MS,
      // A command that was under way when its worker died is not begun again.
      maxStalledCount: 0,
    });
    this.#worker.on('error', (err) => logger.warn({ err }, 'control queue error'));
  }

  /** Resolves when commands are taken. */
  static async open(options: ControlListenerOptions): Promise<ControlListener> {
    const listener = new ControlListener(options);
    await listener.#worker.waitUntilReady();
    listener.#worker.run().catch((err: unknown) => {
      options.logger.error({ err }, 'the control queue reader stopped');
    });
    return listener;
  }

  /** Takes no more commands, ends waits for models, and waits for what has begun. */
  async close(): Promise<void> {
    const reason = new WavepoolError('SHUTTING_DOWN', 'the worker is ending');
    const closed = this.#worker.close();
    for (const running of this.#running.values()) running.abort(reason);
    await closed;
    this.#connection.disconnect();
  }

  /** Until its first `await` it is called in the order of the queue. */
  async #process(job: Job): Promise<ControlResult> {
    const { run, logger } = this.#options;
    const id = String(job.id);
    try {
      const sent = parseRequestPart(ControlJob, job.data, 'command');
      if (sent.kind === 'withdrawal') {
        this.#running.get(sent.id)?.abort(new WavepoolError('CANCELLED', 'the command'));
        return NOTHING;
      }
      const withdrawal = new AbortController();
      this.#running.set(id, withdrawal);
      const { command } = sent;
      logger.info({ command }, 'command');
      return await run(command, withdrawal.signal);
    } catch (thrown) {
      const error = toWavepoolError(thrown);
      if (error.code === 'INTERNAL') logger.error({ err: thrown }, 'command failed unexpectedly');
      else logger.info({ code: error.code }, error.message);
      throw toQueueError(error);
    } finally {
      this.#running.delete(id);
    }
  }
}

export interface ControlRunnerOptions {
  readonly runtime: Runtime;
  /** The base of `replace`: the configuration that the model was started with, or would be started with. */
  readonly defaultsOf: (model: string) => Promise<ModelConfiguration>;
  /** Called when a model is ready; its queue may not be served by this worker yet. */
  readonly serve: (entry: ModelEntry) => Promise<void>;
}

/** The end of a command that has taken its place. It is in an object so that awaiting the place does not await the end. */
interface Begun {
  readonly ended: Promise<ControlResult>;
}

export class ControlRunner {
  readonly #options: ControlRunnerOptions;
  /** Resolves when the latest command has taken its place in the queue of its model. */
  #placed: Promise<unknown> = Promise.resolve();

  constructor(options: ControlRunnerOptions) {
    this.#options = options;
  }

  /**
   * Commands take their places at the models in the order of the calls; each then waits for its model alone.
   * @param signal ends the wait for the model; what has begun is finished
   * @throws {WavepoolError} MODEL_UNKNOWN, INVALID_REQUEST, SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY,
   *   BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, SHUTTING_DOWN, or why a load failed
   */
  async run(command: ControlCommand, signal: AbortSignal): Promise<ControlResult> {
    const begun = this.#placed.then(() => this.#begin(command, signal));
    this.#placed = begun.catch(() => undefined);
    return (await begun).ended;
  }

  /** Returns when the command has its place. */
  async #begin(command: ControlCommand, signal: AbortSignal): Promise<Begun> {
    signal.throwIfAborted();
    const { runtime } = this.#options;
    switch (command.operation) {
      case 'load':
        return this.#beginLoad(command.model, command.settings, signal);
      case 'reconfigure':
        return this.#beginReconfigure(command, signal);
      case 'unload':
        return { ended: runtime.unload(command.model, { signal }).then(resultOf) };
      case 'unload-many':
        return { ended: this.#unloadMany(command.models, signal) };
      default:
        return command satisfies never;
    }
  }

  async #beginLoad(id: string, settings: ModelSettings, signal: AbortSignal): Promise<Begun> {
    const { runtime } = this.#options;
    if (settings.slots !== undefined) runtime.assertSlotsAdmitted(id, settings.slots);
    if (!runtime.entries.has(id)) {
      const defaults = await this.#options.defaultsOf(id);
      runtime.register(id, withSettings(defaults, settings));
    } else if (Object.values(settings).some((value) => value !== undefined)) {
      const merge = (current: ModelConfiguration) => withSettings(current, settings);
      return { ended: this.#served(runtime.reconfigure(id, merge, { signal })) };
    }
    return { ended: this.#served(runtime.load(id, { signal })) };
  }

  async #beginReconfigure(
    command: Extract<ControlCommand, { operation: 'reconfigure' }>,
    signal: AbortSignal,
  ): Promise<Begun> {
    const { runtime } = this.#options;
    const { model, settings, replace, strategy } = command;
    if (settings.slots !== undefined) runtime.assertSlotsAdmitted(model, settings.slots);
    if (!runtime.entries.has(model)) throw new WavepoolError('MODEL_UNKNOWN', model);
    const defaults = replace ? await this.#options.defaultsOf(model) : undefined;
    const change = (current: ModelConfiguration) => withSettings(defaults ?? current, settings);
    return { ended: this.#served(runtime.reconfigure(model, change, { signal, strategy })) };
  }

  async #unloadMany(models: readonly string[] | 'all', signal: AbortSignal) {
    const { runtime } = this.#options;
    const { unloaded, notFound } = await runtime.unloadMany(models, { signal });
    const entries = unloaded.flatMap((id) => runtime.entries.get(id) ?? []);
    return { models: entries.map((entry) => describe(entry, false)), notFound: [...notFound] };
  }

  async #served(managed: Promise<ManagementResult>): Promise<ControlResult> {
    const result = await managed;
    await this.#options.serve(result.entry);
    return resultOf(result);
  }
}

function resultOf({ entry, reconfigured }: ManagementResult): ControlResult {
  return { models: [describe(entry, reconfigured)], notFound: [] };
}

function describe(entry: ModelEntry, reconfigured: boolean): ControlledModel {
  const { id, state, loaded, generation } = entry.snapshot();
  return { id, state, loaded, reconfigured, generation };
}
