/** How the settings of a model become its configuration. */
import type { ModelSettings } from '../../core/worker/control.ts';
import type { ModelConfiguration } from '../../runtime/models/model-configuration.ts';
import { admittedSlots } from '../../runtime/slots/capacity.ts';
import { MAX_SLOTS } from '../../runtime/slots/model-slots.ts';

/** The longest segment any family takes is well below this. */
export const LONGEST_SEGMENT_SECONDS = 30;
/** A batch waits this long for company while jobs are still producing segments. */
const RECOGNIZER_WAIT_MS = 20;

/** Jobs taken beyond what fills every slot's batch, so that the next batch is ready when one ends. */
const LOOK_AHEAD = 2;

/** All that a model is started with. */
export interface StartSettings {
  readonly path: string;
  readonly slots: number;
  readonly batch: number;
  readonly threads: number;
  readonly busyTimeoutMs: number;
}

/** Jobs of one model that a worker runs at once. */
export function jobConcurrency({ slots, maxBatch }: ModelConfiguration): number {
  return slots * maxBatch * LOOK_AHEAD;
}

export function recognizerConfiguration(start: StartSettings): ModelConfiguration {
  const { path, slots, batch, threads, busyTimeoutMs } = start;
  return {
    path,
    mode: 'offline',
    slots,
    threads,
    maxBatch: batch,
    maxAudioSeconds: batch * LONGEST_SEGMENT_SECONDS,
    maxWaitMs: RECOGNIZER_WAIT_MS,
    busyTimeoutMs,
  };
}

/** What is left out keeps the value that `base` has. */
export function mergeSettings(base: ModelConfiguration, wanted: ModelSettings): ModelConfiguration {
  const { slots, batch, threads, busyTimeoutMs, maxWaitMs } = wanted;
  const secondsPerItem = base.maxAudioSeconds / base.maxBatch;
  return {
    ...base,
    slots: slots ?? base.slots,
    threads: threads ?? base.threads,
    maxBatch: batch ?? base.maxBatch,
    maxAudioSeconds: (batch ?? base.maxBatch) * secondsPerItem,
    maxWaitMs: maxWaitMs ?? base.maxWaitMs,
    busyTimeoutMs: busyTimeoutMs ?? base.busyTimeoutMs,
  };
}

/**
 * Without evidence one slot is all that is proven, unless the worker was started to take more.
 * @param unvalidated counts up to this one need no evidence
 * @param evidence the largest count that evidence admits
 * @throws {WavepoolError} CAPACITY_UNVALIDATED, SLOTS_UNSUPPORTED
 */
export function assertSlotsAdmitted(
  model: string,
  slots: number,
  unvalidated: number,
  evidence = 1,
): void {
  admittedSlots({
    model,
    requested: slots,
    evidence,
    unvalidated: slots <= unvalidated,
    // What the family really supports is checked before anything that works is retired.
    advertised: MAX_SLOTS,
  });
}
