/** The models of a worker process: the ones it serves and the detector that finds speech for them. */
import type { WorkerSettings } from '../core/worker-settings.ts';
import { systemClock } from '../runtime/clock.ts';
import type { Engine } from '../runtime/engine.ts';
import type { ModelConfiguration, ModelEntry } from '../runtime/model-entry.ts';
import { Runtime } from '../runtime/runtime.ts';
import { DecodeAllowance } from './decode-allowance.ts';
import {
  assertSlotsAdmitted,
  LONGEST_SEGMENT_SECONDS,
  recognizerConfiguration,
} from './model-settings.ts';
import { DECODE_STEP_SECONDS } from './transcription.ts';

/** Decoded audio that all jobs of a worker hold ahead of recognition: 10 minutes are 38 MB. */
const DECODED_SECONDS = 600;
const DETECTOR_BATCH = 16;

export interface ServedModels {
  readonly runtime: Runtime;
  readonly detector: ModelEntry;
  readonly allowance: DecodeAllowance;
}

/**
 * Registers the models and loads them all.
 * @throws {WavepoolError} CAPACITY_UNVALIDATED, SLOTS_UNSUPPORTED, or why a load failed; nothing stays loaded then.
 */
export async function loadServedModels(
  engine: Engine,
  settings: WorkerSettings,
): Promise<ServedModels> {
  const runtime = new Runtime(engine, systemClock);
  try {
    const detector = runtime.add(settings.detector.id, detectorConfiguration(settings));
    const recognizers = settings.models.map((model) => {
      assertSlotsAdmitted(model.id, model.slots, settings.unvalidatedSlots);
      return runtime.add(model.id, recognizerConfiguration(model));
    });
    for (const entry of [detector, ...recognizers]) await entry.load();
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
