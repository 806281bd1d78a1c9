/** The models of a worker process: the ones it serves and the detector that finds speech for them. */
import type { WorkerModel, WorkerSettings } from '../core/worker-settings.ts';
import { systemClock } from '../runtime/clock.ts';
import type { Engine } from '../runtime/engine.ts';
import type { ModelConfiguration } from '../runtime/model-configuration.ts';
import type { ModelEntry } from '../runtime/model-entry.ts';
import { Runtime } from '../runtime/runtime.ts';
import { DecodeAllowance } from './decode-allowance.ts';
import { EvidenceSlots } from './slot-admission.ts';
import { DECODE_STEP_SECONDS } from './transcription.ts';

/** Jobs taken beyond what fills every slot's batch, so that the next batch is ready when one ends. */
const LOOK_AHEAD = 2;
/** Decoded audio that all jobs of a worker hold ahead of recognition: 10 minutes are 38 MB. */
const DECODED_SECONDS = 600;
/** The longest segment any family takes is well below this. */
const LONGEST_SEGMENT_SECONDS = 30;
/** A batch waits this long for company while jobs are still producing segments. */
const RECOGNIZER_WAIT_MS = 20;
const DETECTOR_BATCH = 16;

export interface ServedModels {
  readonly runtime: Runtime;
  readonly detector: ModelEntry;
  readonly allowance: DecodeAllowance;
}

/** Jobs of one model that a worker runs at once. */
export function jobConcurrency({ slots, batch }: WorkerModel): number {
  return slots * batch * LOOK_AHEAD;
}

/**
 * Registers the models and loads them all.
 * @throws {WavepoolError} CAPACITY_UNVALIDATED, SLOTS_UNSUPPORTED, INSUFFICIENT_MEMORY, or why a load failed; nothing
 * stays loaded then.
 */
export async function loadServedModels(
  engine: Engine,
  settings: WorkerSettings,
): Promise<ServedModels> {
  const slotPolicy = new EvidenceSlots(settings.models, { engine });
  const runtime = new Runtime(engine, systemClock, { slotPolicy });
  try {
    const detector = runtime.register(settings.detector.id, detectorConfiguration(settings));
    for (const model of settings.models) {
      const slots = await slotPolicy.admit(model);
      runtime.register(model.id, recognizerConfiguration(model, slots));
    }
    await runtime.loadEagerly();
    for (const model of settings.models) {
      await slotPolicy.learn(model, runtime.entry(model.id).model.info);
    }
    return { runtime, detector, allowance: decodeAllowance() };
  } catch (error) {
    await runtime.close();
    throw error;
  }
}

function decodeAllowance(): DecodeAllowance {
  return new DecodeAllowance({
    totalSeconds: DECODED_SECONDS,
    minimumSeconds: DECODE_STEP_SECONDS + LONGEST_SEGMENT_SECONDS,
  });
}

/** Detection is cheap and never held for long: one slot of one thread serves every job of the worker. */
function detectorConfiguration({ detector }: WorkerSettings): ModelConfiguration {
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

function recognizerConfiguration(model: WorkerModel, slots: number): ModelConfiguration {
  return {
    path: model.path,
    mode: 'offline',
    slots,
    threads: model.threads,
    maxBatch: model.batch,
    maxAudioSeconds: model.batch * LONGEST_SEGMENT_SECONDS,
    maxWaitMs: RECOGNIZER_WAIT_MS,
    busyTimeoutMs: 0,
  };
}
