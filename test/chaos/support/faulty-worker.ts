/**
 * The worker process over the test addon. It is the real entry; only what its engine runs is hurt on the way, as the fault
 * plan beside its results and the length of each recording say.
 */
import { dirname } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { parseSupervisorMessage } from '../../../src/core/worker/ipc.ts';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import {
  type LoadedModel,
  type NativeRun,
  type PoolOptions,
  SAMPLE_RATE,
  type SessionPool,
  type TaskItem,
  type TaskOutcome,
} from '../../../src/runtime/engine.ts';
import {
  ABORT_SECONDS,
  BLOCK_SECONDS,
  claimBlock,
  type FaultPlan,
  HANG_SECONDS,
  noteBatch,
  readFaultPlan,
} from './fault-plan.ts';
import '../../../workers/audio-worker.ts';

let folder = '';
let plan: FaultPlan = { paceMs: 0, blockMs: 0, notes: false };

process.prependListener('message', (raw) => {
  const message = parseSupervisorMessage(raw);
  if (message?.type !== 'start') return;
  folder = dirname(message.settings.resultsDir);
  plan = readFaultPlan(folder);
});

function isOf(item: TaskItem, seconds: number): boolean {
  return item.endSample - item.startSample === Math.round(seconds * SAMPLE_RATE);
}

/** The fault that native code finds in its options. */
function hurt(item: TaskItem): TaskItem {
  if (isOf(item, ABORT_SECONDS)) return { ...item, options: { ...item.options, fault: 'abort' } };
  if (isOf(item, HANG_SECONDS)) return { ...item, options: { ...item.options, fault: 'hang' } };
  return item;
}

/** Nothing of this process runs meanwhile: no timer, no lock renewal. */
function blockEventLoop(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function faultyRun(
  pool: SessionPool,
  slot: number,
  items: readonly TaskItem[],
  onOutcome: ((index: number, outcome: TaskOutcome) => void) | undefined,
): NativeRun {
  if (items.some((item) => isOf(item, BLOCK_SECONDS)) && claimBlock(folder)) {
    blockEventLoop(plan.blockMs);
  }
  if (plan.notes) noteBatch(folder, items.length);
  if (plan.paceMs === 0) return pool.run(slot, items.map(hurt), onOutcome);
  const outcomes: [number, TaskOutcome][] = [];
  const run = pool.run(slot, items.map(hurt), (index, outcome) => outcomes.push([index, outcome]));
  const end = async () => {
    const [all] = await Promise.all([run.done, delay(plan.paceMs)]);
    for (const [index, outcome] of outcomes) onOutcome?.(index, outcome);
    return all;
  };
  return { done: end() };
}

function faultyPool(pool: SessionPool): SessionPool {
  return {
    size: pool.size,
    capacity: pool.capacity,
    maxBatch: pool.maxBatch,
    sessionBytes: pool.sessionBytes,
    startStream: (slot, options) => pool.startStream(slot, options),
    run: (slot, items, onOutcome) => faultyRun(pool, slot, items, onOutcome),
    close: () => pool.close(),
  };
}

function faultyModel(model: LoadedModel): LoadedModel {
  return {
    info: model.info,
    createPool: async (options: PoolOptions) => faultyPool(await model.createPool(options)),
    createState: () => model.createState(),
    close: () => model.close(),
  };
}

const load = Reflect.get(NativeEngine.prototype, 'loadModel');
NativeEngine.prototype.loadModel = async function loadModel(path) {
  const model = await load.call(this, path);
  return model.info.task === 'asr' ? faultyModel(model) : model;
};
