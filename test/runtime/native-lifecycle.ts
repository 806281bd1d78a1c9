/** Many fake models over the test addon: the code paths of real ones, with gates and faults (native/tests/support/faults.h). */
import path from 'node:path';
import { afterEach, expect } from 'vitest';
import type { ModelState } from '../../src/core/worker/status.ts';
import type { Segment, SubmitOptions } from '../../src/runtime/batches/batch-item.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import type { Audio, TaskOptions, TaskResult } from '../../src/runtime/engine.ts';
import type { ModelConfiguration } from '../../src/runtime/models/model-configuration.ts';
import type { ModelEntry } from '../../src/runtime/models/model-entry.ts';
import { Runtime, type RuntimeOptions } from '../../src/runtime/runtime.ts';
import { engine, folder, openDecoded } from '../engine/engine-fixture.ts';
import { type FakeModel, writeFakeModel } from '../engine/fake-model.ts';
import { faults, TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { type Seen, watch } from './slots/slots-fixture.ts';

const opened: Runtime[] = [];
const AUDIO_SECONDS = 20;

const CONFIGURATION: Omit<ModelConfiguration, 'path'> = {
  mode: 'offline',
  slots: 1,
  threads: 1,
  maxBatch: 1,
  maxAudioSeconds: 120,
  maxWaitMs: 0,
  busyTimeoutMs: 0,
};

/** After each test: gates open, models closed, counters zero, no weights and no session left in native memory. */
afterEach(async () => {
  if (!TEST_ADDON_BUILT) return;
  faults().clearFaults();
  for (const runtime of opened.splice(0)) {
    await runtime.close();
    for (const model of runtime.snapshot().models)
      await expectAtRest(runtime, model.id, 'unloaded');
  }
  expect(faults().liveObjects()).toEqual({ weights: 0, sessions: 0 });
});

/** Once leases are back (results come before them): nothing is queued or running, nothing waits to be freed. */
export async function expectAtRest(runtime: Runtime, id: string, state: string): Promise<void> {
  (await runtime.entry(id).slots.acquire({ timeoutMs: 0, label: 'the test' })).release();
  expect(runtime.entry(id).snapshot()).toMatchObject({
    state,
    loaded: state === 'ready',
    activeSlots: 0,
    exclusive: false,
    queuedRequests: 0,
    waitingManagers: 0,
    leaving: 0,
    batches: { queuedItems: 0, runningItems: 0, runningBatches: 0 },
  });
}

export function modelFile(name: string, model: FakeModel = {}): string {
  return writeFakeModel(path.join(folder, `${name}.gguf`), model);
}

export function nativeRuntime(options: RuntimeOptions = {}) {
  const runtime = new Runtime(engine, systemClock, options);
  opened.push(runtime);
  let audio: Audio | undefined;
  let next = 0;
  /** Registers a fake model of its own file. */
  const register = (
    id: string,
    overrides: Partial<ModelConfiguration> = {},
    model: FakeModel = {},
  ): ModelEntry =>
    runtime.register(id, { ...CONFIGURATION, path: modelFile(id, model), ...overrides });
  /** Decodes what segments are cut from; before the first one. */
  const decode = async (): Promise<void> => {
    audio = await openDecoded(AUDIO_SECONDS, 3);
  };
  /** One second of audio, for one model. */
  const segment = (options: TaskOptions = {}, overrides: Partial<Segment> = {}): Segment => {
    if (!audio) throw new Error('nothing has been decoded');
    const second = next % AUDIO_SECONDS;
    next += 1;
    return {
      jobId: `job-${next}`,
      jobSequence: next,
      priority: 0,
      key: 'asr',
      jobRemainingSeconds: 1,
      task: { audio, startSample: second * 16_000, endSample: (second + 1) * 16_000, options },
      ...overrides,
    };
  };
  const submit = (
    id: string,
    options: TaskOptions = {},
    submitOptions: SubmitOptions = {},
  ): Promise<TaskResult> => runtime.entry(id).submit(segment(options), submitOptions);
  const submitMany = (id: string, count: number, options: TaskOptions = {}): Seen<TaskResult>[] =>
    Array.from({ length: count }, () => watch(submit(id, options)));
  const status = (id: string) => runtime.entry(id).snapshot();
  return { runtime, register, decode, segment, submit, submitMany, status };
}

/** Arms a gate; `open` lets through whoever has come to it. */
export function nativeGate(
  name: 'load-gate' | 'clone-gate' | 'prepare-gate' | 'gate' | 'destroy-gate',
) {
  faults().setFault(name, true);
  return { open: () => faults().setFault(name, false) };
}

export const GOOD = expect.objectContaining({ text: expect.stringMatching(/^fake [0-9a-f]{16} /) });

export async function allEnd(seen: readonly Seen<unknown>[]): Promise<void> {
  await Promise.all(seen.map(({ ended }) => ended));
}

/** Resolves in the turn in which a model's state becomes this one. */
export function reaches(runtime: Runtime, id: string, wanted: ModelState): Promise<void> {
  return new Promise((resolve) => {
    const stop = runtime.onChange((status) => {
      if (status.id !== id || status.state !== wanted) return;
      stop();
      resolve();
    });
  });
}
