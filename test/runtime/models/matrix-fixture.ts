/** Model A in each state of the contract's matrices, beside a model B that is ready and idle. Gates hold it there. */
import { expect } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { ModelConfiguration } from '../../../src/runtime/models/model-configuration.ts';
import { FAMILY_DECIDES, type ModelPolicy } from '../../../src/runtime/models/slot-policy.ts';
import type { RuntimeOptions } from '../../../src/runtime/runtime.ts';
import { gateFor, lifecycle, plan } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { type Seen, watch } from '../slots/slots-fixture.ts';

/** Answers for capacity, so that no session is made for the question. */
const POLICY: ModelPolicy = {
  ...FAMILY_DECIDES,
  plan: ({ path }) => Promise.resolve(plan(path)),
};

/** What a status says when nothing is leased, queued or leaving. */
export const AT_REST = {
  activeSlots: 0,
  exclusive: false,
  queuedRequests: 0,
  waitingManagers: 0,
  leaving: 0,
  batches: { queuedItems: 0, runningItems: 0, runningBatches: 0 },
};

/** What a status says of a model that is not in memory. */
export const NOTHING_LOADED = {
  loaded: false,
  maxParallelSlots: null,
  family: null,
  weightBytes: null,
  sessionBytes: null,
  idleMs: null,
};

/** What a status says of a complete pool. */
export function wholePool(slots: number) {
  const sessionBytes = Array.from({ length: slots }, () => 1_000);
  return { loaded: true, slots, maxParallelSlots: 8, weightBytes: 5_000, sessionBytes };
}

/** For the column of eviction and idle end. */
export const LIMITED: RuntimeOptions = { maxLoadedModels: 2, idleUnloadMs: 1_000 };

export function expectAllSucceeded(seen: readonly Seen<unknown>[]): void {
  for (const { error, settled } of seen) expect([settled, error]).toEqual([true, undefined]);
}

function models(slots: number, options: RuntimeOptions) {
  const all = lifecycle({ policy: POLICY, ...options });
  const { engine, register, runtime, submit } = all;
  for (const id of ['a', 'b']) register(id, { slots });
  const poolsOf = (path: string) => {
    const made = engine.events.filter((event) => event.startsWith('pool '));
    return engine.pools.filter((_, index) => made[index]?.split(' ')[1] === path);
  };
  return {
    ...all,
    submitMany: (id: string, count: number) => Array.from({ length: count }, () => submit(id)),
    load: (id: string) => watch(runtime.load(id)),
    unload: (id: string) => watch(runtime.unload(id)),
    unloadMany: (...ids: string[]) => watch(runtime.unloadMany(ids)),
    reconfigure: (id: string, path: string) =>
      watch(runtime.reconfigure(id, (now: ModelConfiguration) => ({ ...now, path }))),
    close: (drainMs: number) => watch(runtime.close({ drainMs })),
    /** How many segments have begun on pools of these weights. */
    ranOn: (path: string) => poolsOf(path).flatMap(({ runs }) => runs).length,
    count: (event: string) => engine.events.filter((each) => each === event).length,
    /** Ends what runs on these weights now. */
    finish: async (path: string): Promise<void> => {
      for (const run of poolsOf(path).flatMap(({ runs }) => runs)) run.finish();
      await turn();
    },
    /** Holds loads of these weights until the returned function is called. */
    holdLoad: (path: string): (() => void) => {
      const held = gateFor(path);
      engine.onLoad = held.wait;
      return held.open;
    },
  };
}

export async function unloaded(slots: number, options: RuntimeOptions = {}) {
  const all = models(slots, options);
  await all.runtime.load('b');
  return all;
}

/** A loads for one request. */
export async function loading(slots: number, options: RuntimeOptions = {}) {
  const all = await unloaded(slots, options);
  const open = all.holdLoad('a.gguf');
  const first = all.submit('a');
  await turn();
  expect(all.status('a')).toMatchObject({ state: 'loading', activeSlots: 1 });
  return { ...all, open, first };
}

export async function ready(slots: number, options: RuntimeOptions = {}) {
  const all = await unloaded(slots, options);
  await all.runtime.load('a');
  expect(all.status('a')).toMatchObject({ state: 'ready', generation: 1 });
  return all;
}

/** A is ready, every slot runs and one request waits. */
export async function full(slots: number, options: RuntimeOptions = {}) {
  const all = await ready(slots, options);
  const older = all.submitMany('a', slots + 1);
  await turn();
  expect(all.status('a')).toMatchObject({ activeSlots: slots, queuedRequests: 1 });
  return { ...all, older };
}

/** A runs `running` requests and has one slot left. */
export async function runningWithFreeSlots(running: number) {
  const all = await ready(running + 1);
  const older = all.submitMany('a', running);
  await turn();
  expect(all.status('a')).toMatchObject({ activeSlots: running, slots: running + 1 });
  return { ...all, older };
}

/** A has committed to other weights, which are held in their load. */
export async function reconfiguring(slots: number, options: RuntimeOptions = {}) {
  const all = await ready(slots, options);
  const open = all.holdLoad('next.gguf');
  const change = all.reconfigure('a', 'next.gguf');
  await turn();
  expect(all.status('a')).toMatchObject({ state: 'reconfiguring', exclusive: true });
  return { ...all, open, change };
}

/** A's sessions are held on their way out. */
export async function unloading(slots: number, options: RuntimeOptions = {}) {
  const all = await ready(slots, options);
  const held = gateFor('a.gguf');
  all.engine.onPoolClose = held.wait;
  const ending = all.unload('a');
  await turn();
  expect(all.status('a')).toMatchObject({ state: 'unloading', exclusive: true });
  return { ...all, open: held.open, ending };
}

/** Every slot of both models runs, and a bulk unload waits for both. */
export async function bulkWaiting(slots: number) {
  const all = await ready(slots);
  const older = [...all.submitMany('a', slots), ...all.submitMany('b', slots)];
  await turn();
  const bulk = all.unloadMany('a', 'b');
  expect([all.status('a').waitingManagers, all.status('b').waitingManagers]).toEqual([1, 1]);
  return { ...all, older, bulk };
}

/** A's first load has failed; another one would succeed. */
export async function failed(slots: number, options: RuntimeOptions = {}) {
  const all = await unloaded(slots, options);
  all.engine.onLoad = () => Promise.reject(new WavepoolError('MODEL_LOAD_FAILED', 'torn file'));
  await all.load('a').ended;
  all.engine.onLoad = () => Promise.resolve();
  expect(all.status('a')).toMatchObject({ state: 'failed', generation: 0 });
  return all;
}

/** Whatever is asked of a runtime that is closed. */
export async function expectNewWorkRefused(all: ReturnType<typeof models>): Promise<void> {
  const asked = [
    all.submit('a'),
    all.load('a'),
    all.reconfigure('a', 'next.gguf'),
    all.unload('a'),
    all.unloadMany('a', 'b'),
    watch(all.runtime.entry('a').acquireStream()),
  ];
  await turn();
  const codes = asked.map(({ error }) => (error instanceof WavepoolError ? error.code : error));
  expect(codes).toEqual(asked.map(() => 'SHUTTING_DOWN'));
}
