/** The models of a worker process: the ones it serves and the detector that finds speech for them. */
import { WavepoolError } from '../../core/errors.ts';
import type { WorkerModel, WorkerSettings } from '../../core/worker/worker-settings.ts';
import { InstalledModels } from '../../models/installed/installed-models.ts';
import type { BatchWatch } from '../../runtime/batches/batcher.ts';
import { systemClock } from '../../runtime/clock.ts';
import type { Engine, ModelPlanner } from '../../runtime/engine.ts';
import type { ModelConfiguration } from '../../runtime/models/model-configuration.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import { Runtime } from '../../runtime/runtime.ts';
import { DecodeAllowance } from '../audio/decode-allowance.ts';
import { liveDetectorConfiguration } from '../live/live-detector.ts';
import { DECODE_STEP_SECONDS } from '../speech/speech-search.ts';
import { EvidencePolicy } from './evidence-policy.ts';

/** Decoded audio that all jobs of a worker hold ahead of recognition: 10 minutes are 38 MB. */
const DECODED_SECONDS = 600;
const DETECTOR_BATCH = 16;
/** The longest segment any family takes is well below this. */
const LONGEST_SEGMENT_SECONDS = 30;
/** A batch of a recognizer waits this long for company while jobs are still producing segments. */
const RECOGNIZER_WAIT_MS = 20;

export interface ServedModels {
  readonly runtime: Runtime;
  readonly detector: ModelEntry;
  /** The detector for live streams, which hold its slots; undefined when this worker takes none. */
  readonly liveDetector: ModelEntry | undefined;
  readonly allowance: DecodeAllowance;
  /**
   * The configuration that a model was started with. For a model that this worker was not started with, it is that of the
   * first model, with one slot.
   * @throws {WavepoolError} MODEL_UNKNOWN when its weights are not there
   */
  readonly defaultsOf: (model: string) => Promise<ModelConfiguration>;
}

export interface ServedModelsOptions {
  /** Tells capacity and memory from metadata; without it, sessions are probed. */
  readonly planner?: ModelPlanner | undefined;
  /** See `RuntimeOptions`. */
  readonly watchBatches?: BatchWatch | undefined;
  /** Gets errors that no caller waits for. */
  readonly onBackgroundError: (error: unknown) => void;
}

/**
 * Registers the models and loads them, as many as may be in memory; none when that is left to their first jobs.
 * @throws {WavepoolError} CAPACITY_UNVALIDATED, SLOTS_UNSUPPORTED, INSUFFICIENT_MEMORY, or why a load failed; nothing
 * stays loaded then.
 */
export async function openServedModels(
  engine: Engine,
  settings: WorkerSettings,
  { planner, watchBatches, onBackgroundError }: ServedModelsOptions,
): Promise<ServedModels> {
  const { maxLoadedModels, idleUnloadMs, minFreeMemoryMb, unvalidatedSlots } = settings;
  const policy = new EvidencePolicy(unvalidatedSlots, { engine, planner });
  const runtime = new Runtime(engine, systemClock, {
    // Detectors do not count against the limit of the user.
    maxLoadedModels: maxLoadedModels === 0 ? 0 : maxLoadedModels + detectorCount(settings),
    idleUnloadMs,
    minFreeMemoryBytes: minFreeMemoryMb * 2 ** 20,
    busyTimeoutMs: 0,
    policy,
    watchBatches,
    onBackgroundError,
  });
  try {
    const detector = runtime.register(settings.detector.id, detectorConfiguration(settings));
    for (const model of settings.models) {
      await policy.admit(model);
      if (model.id === settings.detector.id) continue;
      runtime.register(model.id, servedConfiguration(model, settings));
    }
    if (!settings.lazy) await runtime.loadEagerly();
    // It is loaded by its first stream, because many workers never have one.
    const liveDetector = await registerLive(runtime, settings, policy);
    await learnLoaded(runtime, settings, policy);
    const defaultsOf = (model: string) => defaultConfiguration(model, settings);
    return { runtime, detector, liveDetector, allowance: decodeAllowance(), defaultsOf };
  } catch (error) {
    await runtime.close();
    throw error;
  }
}

function detectorCount({ liveStreams }: WorkerSettings): number {
  return liveStreams > 0 ? 2 : 1;
}

/** A session either runs batches or holds one stream, so live streams have an entry of their own, with an id of its own. */
async function registerLive(
  runtime: Runtime,
  { detector: { id, path }, liveStreams }: WorkerSettings,
  policy: EvidencePolicy,
): Promise<ModelEntry | undefined> {
  if (liveStreams === 0) return undefined;
  const liveId = `${id}~live`;
  const streams = await policy.admitStreams({ liveId, id, path, streams: liveStreams });
  return runtime.register(liveId, liveDetectorConfiguration({ path, streams, busyTimeoutMs: 0 }));
}

/** A model that is not in memory yet can be given more slots only after a restart. */
async function learnLoaded(
  runtime: Runtime,
  { models }: WorkerSettings,
  policy: EvidencePolicy,
): Promise<void> {
  for (const model of models) {
    const entry = runtime.entry(model.id);
    if (entry.resident) await policy.learn(model, entry.model.info);
  }
}

function decodeAllowance(): DecodeAllowance {
  return new DecodeAllowance({
    totalSeconds: DECODED_SECONDS,
    minimumSeconds: DECODE_STEP_SECONDS + LONGEST_SEGMENT_SECONDS,
  });
}

/** Detection is cheap and never held for long: one slot of one thread serves every job, unless it has jobs of its own. */
function detectorConfiguration(settings: WorkerSettings): ModelConfiguration {
  const { detector, models } = settings;
  const served = models.find(({ id }) => id === detector.id);
  if (served !== undefined) return servedConfiguration(served, settings);
  return {
    path: detector.path,
    mode: 'offline',
    slots: 1,
    threads: 1,
    maxBatch: DETECTOR_BATCH,
    maxAudioSeconds: DETECTOR_BATCH * DECODE_STEP_SECONDS,
    maxWaitMs: 0,
    busyTimeoutMs: 0,
  };
}

function servedConfiguration(
  { path, slots, batch, threads, busyTimeoutMs }: Omit<WorkerModel, 'id'>,
  { maxQueued }: WorkerSettings,
): ModelConfiguration {
  return {
    path,
    mode: 'offline',
    slots,
    threads,
    maxBatch: batch,
    maxAudioSeconds: batch * LONGEST_SEGMENT_SECONDS,
    maxWaitMs: RECOGNIZER_WAIT_MS,
    busyTimeoutMs,
    maxQueued,
  };
}

async function defaultConfiguration(
  id: string,
  settings: WorkerSettings,
): Promise<ModelConfiguration> {
  if (id === settings.detector.id) return detectorConfiguration(settings);
  const { models, modelsDir } = settings;
  const started = models.find((model) => model.id === id);
  if (started !== undefined) return servedConfiguration(started, settings);
  const [first] = models;
  if (first === undefined || modelsDir === undefined) throw new WavepoolError('MODEL_UNKNOWN', id);
  const installed = await new InstalledModels(modelsDir).locate(id);
  if (installed === undefined) {
    const detail = `${id} is not in the models directory; run \`wavepool models pull ${id}\` there`;
    throw new WavepoolError('MODEL_UNKNOWN', detail);
  }
  return servedConfiguration({ ...first, path: installed.path, slots: 1 }, settings);
}
