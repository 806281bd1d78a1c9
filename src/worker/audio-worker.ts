/**
 * A worker: registers its models, takes jobs from their queues, runs them, obeys commands, reports what it holds.
 *
 *   start() ──▶ loading ──▶ taking jobs ──close(deadline)──▶ draining ──deadline──▶ handing back ──▶ closed
 *
 * BullMQ keeps locks, stall checks, retries and events; `ModelQueue` maps its jobs to the processor and back.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { WavepoolError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { packageVersion } from '../core/package-version.ts';
import { NO_TRACING, type Tracing } from '../core/tracing.ts';
import { ALIVE_MS, type WorkerMessage } from '../core/worker/ipc.ts';
import type { ModelStatus, WorkerPresence } from '../core/worker/status.ts';
import type { WorkerSettings } from '../core/worker/worker-settings.ts';
import { PresencePublisher } from '../queue/fleet/presence.ts';
import type { Engine, ModelPlanner } from '../runtime/engine.ts';
import type { ModelConfiguration } from '../runtime/models/model-configuration.ts';
import type { ModelEntry } from '../runtime/models/model-entry.ts';
import type { InputPlaces } from '../storage/inputs.ts';
import type { ResultStore } from '../storage/result-store.ts';
import { traceBatches } from './job/batch-tracing.ts';
import { HeldJobs } from './job/held-jobs.ts';
import { JobProcessor } from './job/job-processor.ts';
import { ModelQueue } from './job/model-queue.ts';
import { Quarantine } from './job/quarantine.ts';
import { RunWatch } from './job/run-watch.ts';
import { RemoteStreams } from './live/remote-streams.ts';
import { ControlListener, ControlRunner } from './models/control.ts';
import { ModelChanges } from './models/model-changes.ts';
import { openServedModels, type ServedModels } from './models/served-models.ts';
import { PartInputs } from './parts/part-inputs.ts';
import { PartProcessor } from './parts/part-processor.ts';
import { PartQueue } from './parts/part-queue.ts';

/** Jobs taken beyond what fills every slot's batch, so that the next batch is ready when one ends. */
const LOOK_AHEAD = 2;
/** Parts that are decoded while others are recognized. */
const PARTS_AHEAD = 1;

export interface AudioWorkerOptions {
  readonly settings: WorkerSettings;
  readonly engine: Engine;
  /** Tells what models need from their metadata: the engine itself, where it can. */
  readonly planner?: ModelPlanner | undefined;
  readonly results: ResultStore;
  /** Where inputs that are not paths come from, besides URLs. @defaultValue the folders of the settings */
  readonly places?: InputPlaces | undefined;
  /** The caller closes it. @defaultValue none */
  readonly tracing?: Tracing | undefined;
  readonly logger: Logger;
  /** Sends a message to the supervisor. */
  readonly report: (message: WorkerMessage) => void;
}

export class AudioWorker {
  /** The id in its presence and in the name of its control queue. */
  readonly id = randomUUID();
  readonly #options: AudioWorkerOptions;
  readonly #startedAt = Date.now();
  readonly #engine: RunWatch;
  readonly #held: HeldJobs;
  readonly #quarantine = new Quarantine();
  readonly #queues = new Map<string, ModelQueue>();
  readonly #partQueues = new Map<string, PartQueue>();
  #partInputs: PartInputs | undefined;
  #served: ServedModels | undefined;
  #processor: JobProcessor | undefined;
  #changes: ModelChanges | undefined;
  #control: ControlListener | undefined;
  #live: RemoteStreams | undefined;
  #presence: PresencePublisher | undefined;
  #alive: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: AudioWorkerOptions) {
    this.#options = options;
    this.#engine = new RunWatch(options.engine);
    this.#held = new HeldJobs(options.report);
  }

  /** Loads the models, unless that is left to their first jobs, then takes jobs and commands.
   *  @throws {WavepoolError} why a model could not be loaded, or REDIS_UNAVAILABLE. */
  async start(): Promise<void> {
    const { settings, planner, results, logger, report } = this.#options;
    const { tracing = NO_TRACING } = this.#options;
    const engine = this.#engine;
    this.#alive = setInterval(() => {
      report({ type: 'alive', oldestRun: engine.oldestRun });
    }, ALIVE_MS).unref();
    if (settings.unvalidatedSlots > 0) {
      const slots = settings.unvalidatedSlots;
      logger.warn({ slots }, 'slot counts up to this one are taken without evidence');
    }
    const served = await openServedModels(engine, settings, {
      planner,
      watchBatches: traceBatches(tracing),
      onBackgroundError: (err) => logger.warn({ err }, 'a model could not be looked after'),
    });
    this.#served = served;
    const { runtime, detector, allowance } = served;
    const { ffmpeg, uploadsDir, urls } = settings;
    const places = { uploadsDir, ...this.#options.places, urls };
    this.#processor = new JobProcessor({
      ...{ runtime, detector, results, allowance, ffmpeg, places, tracing },
      maxAudioSeconds: settings.maxAudioSeconds,
    });
    this.#partInputs = new PartInputs({ engine, ffmpeg, places });
    this.#changes = await ModelChanges.open({
      address: settings.redis,
      worker: { worker: this.id, host: hostname(), pid: process.pid },
      logger,
    });
    runtime.onChange((model) => this.#modelChanged(model));
    for (const { id } of settings.models) await this.#serve(runtime.entry(id));
    this.#control = await this.#takeCommands(served);
    this.#live = await this.#takeLive(served);
    this.#presence = this.#publishPresence(served);
    await this.#presence.start();
  }

  /** The presence as it is now, whether or not it was published; undefined before the models are registered. */
  get presence(): WorkerPresence | undefined {
    return this.#served === undefined ? undefined : this.#describe(this.#served);
  }

  /** Takes no more jobs, lets the held ones finish within the deadline, hands back the rest. Idempotent. */
  close({ deadlineMs }: { readonly deadlineMs: number }): Promise<void> {
    this.#closed ??= this.#close(deadlineMs);
    return this.#closed;
  }

  async #close(deadlineMs: number): Promise<void> {
    const late = setTimeout(() => {
      this.#held.abortAll(new WavepoolError('SHUTTING_DOWN', 'the drain deadline has passed'));
      for (const queue of this.#partQueues.values()) queue.abortAll();
      void this.#live?.close();
    }, deadlineMs);
    const closeQueues = async () => {
      await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
      // Jobs that end here may wait for parts that only this worker can take.
      await Promise.all([...this.#partQueues.values()].map((queue) => queue.close()));
    };
    await Promise.all([this.#control?.close(), this.#live?.drain(), closeQueues()]);
    // A command that was under way may have opened one more queue.
    await closeQueues();
    clearTimeout(late);
    await this.#partInputs?.close();
    await this.#live?.close();
    await this.#presence?.close();
    try {
      await this.#served?.runtime.close();
    } finally {
      await this.#changes?.close();
      clearInterval(this.#alive);
    }
  }

  #takeCommands({ runtime, defaultsOf }: ServedModels): Promise<ControlListener> {
    const { settings, logger } = this.#options;
    const serve = (entry: ModelEntry) => this.#serve(entry);
    const runner = new ControlRunner({ runtime, defaultsOf, serve });
    return ControlListener.open({
      address: settings.redis,
      workerId: this.id,
      run: (command, signal) => runner.run(command, signal),
      logger,
    });
  }

  async #takeLive({ runtime, liveDetector }: ServedModels): Promise<RemoteStreams | undefined> {
    if (liveDetector === undefined) return undefined;
    const { settings, logger } = this.#options;
    const { liveStreams, redis: address } = settings;
    const { slots } = liveDetector.configuration;
    if (slots < liveStreams) {
      const validate = `wavepool models validate ${settings.detector.id} --mode streaming`;
      logger.info({ slots, asked: liveStreams }, `fewer live streams than asked for: ${validate}`);
    }
    return RemoteStreams.open({
      address,
      workerId: this.id,
      runtime,
      detector: liveDetector,
      logger,
      onChange: () => this.#presence?.announce(),
    });
  }

  /** Takes the jobs of a model from now on. The detector has jobs only if this worker was started to serve it, too. */
  async #serve({ id: model, configuration }: ModelEntry): Promise<void> {
    const { settings, logger, tracing } = this.#options;
    const processor = this.#processor;
    if (processor === undefined || this.#queues.has(model)) return;
    if (model === settings.detector.id && settings.models.every(({ id }) => id !== model)) return;
    const { redis: address, lockDurationMs, stalledIntervalMs, longJobMs } = settings;
    const queue = await ModelQueue.open({
      address,
      model,
      processor,
      held: this.#held,
      quarantine: this.#quarantine,
      tracing,
      lockDurationMs,
      stalledIntervalMs,
      longJobMs,
      concurrency: jobConcurrency(configuration),
      logger,
    });
    this.#queues.set(model, queue);
    queue.start();
    await this.#takeParts(model, configuration);
    this.#presence?.announce();
  }

  /** Takes parts of split jobs, whichever worker runs those jobs. */
  async #takeParts(model: string, { slots }: ModelConfiguration): Promise<void> {
    const { settings, logger } = this.#options;
    const { runtime } = this.#served ?? {};
    if (runtime === undefined || this.#partInputs === undefined) return;
    const processor = new PartProcessor(runtime, this.#partInputs);
    const { redis: address } = settings;
    const concurrency = slots + PARTS_AHEAD;
    this.#partQueues.set(
      model,
      await PartQueue.open({ address, model, processor, concurrency, logger }),
    );
  }

  /** Takes as many jobs of the model as its slots need now, and publishes the change. */
  #modelChanged(model: ModelStatus): void {
    const queue = this.#queues.get(model.id);
    const entry = this.#served?.runtime.entries.get(model.id);
    if (queue === undefined || entry === undefined) return;
    queue.concurrency = jobConcurrency(entry.configuration);
    this.#changes?.publish(model);
    this.#presence?.announce();
  }

  /** Whatever is published is reported to the supervisor, too. */
  #publishPresence(served: ServedModels): PresencePublisher {
    const { settings, logger, report } = this.#options;
    return new PresencePublisher({
      address: settings.redis,
      snapshot: () => {
        const status = this.#describe(served);
        report({ type: 'status', status });
        for (const model of status.runtime.models) {
          if (this.#queues.has(model.id)) this.#changes?.publish(model);
        }
        return status;
      },
      onError: (err) => logger.warn({ err }, 'this worker cannot be seen'),
    });
  }

  #describe({ runtime }: ServedModels): WorkerPresence {
    const models = [...this.#queues.keys()].map((id) => {
      const { slots, maxBatch: batch } = runtime.entry(id).configuration;
      return { id, slots, batch };
    });
    return {
      id: this.id,
      pid: process.pid,
      host: hostname(),
      startedAt: this.#startedAt,
      version: packageVersion(),
      models,
      runtime: runtime.snapshot(),
      heldJobs: this.#held.size,
      unvalidatedSlots: this.#options.settings.unvalidatedSlots,
      residentBytes: process.memoryUsage.rss(),
      updatedAt: Date.now(),
    };
  }
}

/** Jobs of one model that a worker runs at once. */
function jobConcurrency({ slots, maxBatch }: ModelConfiguration): number {
  return slots * maxBatch * LOOK_AHEAD;
}
