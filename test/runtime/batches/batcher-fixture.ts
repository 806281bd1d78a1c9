import { expect } from 'vitest';
import type { Segment, SubmitOptions } from '../../../src/runtime/batches/batch-item.ts';
import { Batcher, type BatcherLimits } from '../../../src/runtime/batches/batcher.ts';
import type { TaskResult } from '../../../src/runtime/engine.ts';
import { DoublePool, type DoubleRun, silence } from '../engine-double.ts';
import { model, type Seen, watch } from '../slots/slots-fixture.ts';

const LIMITS: BatcherLimits = { maxItems: 4, maxAudioSeconds: 120, maxWaitMs: 20 };

const opened: Batcher[] = [];

/** For `afterEach`, before the slots are checked: nothing is queued, running, or asking for a slot. */
export function expectNothingQueued(): void {
  for (const batcher of opened.splice(0)) {
    expect(batcher.stats()).toMatchObject({ queuedItems: 0, runningBatches: 0, runningItems: 0 });
    expect(batcher.leaseRequests).toBe(0);
  }
}

/** Five seconds of audio that begin at second `at`. */
export function segment(jobId: string, at: number, overrides: Partial<Segment> = {}): Segment {
  const startSample = at * 16_000;
  const endSample = startSample + 5 * 16_000;
  return {
    jobId,
    jobSequence: jobId.charCodeAt(0),
    priority: 0,
    key: 'asr',
    jobRemainingSeconds: 60,
    task: { audio: silence, startSample, endSample, options: {} },
    ...overrides,
  };
}

export function batching(slotCount: number, limits: Partial<BatcherLimits> = {}) {
  const { clock, slots } = model(slotCount);
  const all = { ...LIMITS, ...limits };
  const pool = new DoublePool(slotCount, all.maxItems);
  const batcher = new Batcher({
    label: 'double',
    clock,
    slots,
    pool: () => Promise.resolve(pool),
    limits: all,
  });
  opened.push(batcher);
  /** Submits and looks on. */
  const submit = (each: Segment, options?: SubmitOptions): Seen<TaskResult> =>
    watch(batcher.submit(each, options));
  /** The nth native batch, which must have started. */
  const run = (index: number): DoubleRun => {
    const started = pool.runs[index];
    if (!started) throw new Error(`only ${pool.runs.length} batches have started`);
    return started;
  };
  /** Seconds at which the items of each batch begin. */
  const batches = () => pool.runs.map(({ starts }) => starts.map((start) => start / 16_000));
  return { clock, slots, pool, batcher, submit, run, batches };
}
