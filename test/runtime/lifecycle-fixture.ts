/** Many models in one runtime over the engine double, on a clock of the test; `expectAllOver` checks what must be left. */
import { expect } from 'vitest';
import type { SubmitOptions } from '../../src/runtime/batches/batch-item.ts';
import type { ModelPlan } from '../../src/runtime/engine.ts';
import type { ModelConfiguration } from '../../src/runtime/models/model-configuration.ts';
import type { ModelEntry } from '../../src/runtime/models/model-entry.ts';
import { Runtime, type RuntimeOptions } from '../../src/runtime/runtime.ts';
import { segment } from './batches/batcher-fixture.ts';
import { DoubleEngine, type DoubleRun } from './engine-double.ts';
import { ManualClock, turn } from './manual-clock.ts';
import { watch } from './slots/slots-fixture.ts';

const opened: { clock: ManualClock; engine: DoubleEngine; runtime: Runtime }[] = [];

export const CONFIGURATION: Omit<ModelConfiguration, 'path'> = {
  mode: 'offline',
  slots: 1,
  threads: 1,
  maxBatch: 1,
  maxAudioSeconds: 120,
  maxWaitMs: 0,
  busyTimeoutMs: 0,
};

/** A place that native work reaches and stays at until the test opens it. */
export function gate() {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, wait: () => passed };
}

/** Holds what concerns one path and lets everything else pass. */
export function gateFor(path: string) {
  const { open, wait } = gate();
  return { open, wait: (reached: string) => (reached === path ? wait() : Promise.resolve()) };
}

/** What a planner tells of a small model. */
export function plan(name: string, weightBytes = 1): ModelPlan {
  const info = { name } as ModelPlan['info'];
  return { info, capacity: 8, weightBytes, sessionBytes: 1 };
}

export function lifecycle(options: RuntimeOptions = {}) {
  const clock = new ManualClock();
  const engine = new DoubleEngine();
  const runtime = new Runtime(engine, clock, options);
  opened.push({ clock, engine, runtime });
  const register = (id: string, overrides: Partial<ModelConfiguration> = {}): ModelEntry =>
    runtime.register(id, { ...CONFIGURATION, path: `${id}.gguf`, ...overrides });
  let next = 0;
  /** Submits a segment of its own second to a model and looks on. */
  const submit = (id: string, submitOptions: SubmitOptions = {}) => {
    next += 1;
    return watch(runtime.entry(id).submit(segment('A', next), submitOptions));
  };
  const status = (id: string) => runtime.entry(id).snapshot();
  const states = () => runtime.snapshot().models.map(({ state }) => state);
  const ended = new WeakSet<DoubleRun>();
  /** Ends every batch that runs, and what they let start, until nothing runs. */
  const finishAll = async (): Promise<void> => {
    for (;;) {
      await turn();
      const running = engine.pools.flatMap(({ runs }) => runs).filter((run) => !ended.has(run));
      if (running.length === 0) return;
      for (const run of running) {
        ended.add(run);
        run.finish();
      }
    }
  };
  return { clock, engine, runtime, register, submit, status, states, finishAll };
}

/** For `afterEach`: closes what was opened; nothing is leased, queued, loaded or timed after that. */
export async function expectAllOver(): Promise<void> {
  for (const { clock, engine, runtime } of opened.splice(0)) {
    await runtime.close();
    for (const model of runtime.snapshot().models) {
      expect(model).toMatchObject({
        state: 'unloaded',
        loaded: false,
        leaving: 0,
        activeSlots: 0,
        exclusive: false,
        queuedRequests: 0,
        waitingManagers: 0,
        batches: { queuedItems: 0, runningItems: 0 },
      });
    }
    expect(engine.live).toEqual({ weights: 0, sessions: 0 });
    expect(clock.pending).toBe(0);
  }
}
