/**
 * Random operations on the models of a runtime, and what must hold after each of them: no slot has two holders, no
 * request is lost, nothing passes a manager, limits are kept. For a seed the choices repeat.
 */
import { expect } from 'vitest';
import { WavepoolError } from '../../src/core/errors.ts';
import { RuntimeStatus } from '../../src/core/worker/status.ts';
import type { Segment } from '../../src/runtime/batches/batch-item.ts';
import type { ModelConfiguration } from '../../src/runtime/models/model-configuration.ts';
import type { StreamLease } from '../../src/runtime/models/stream-lease.ts';
import type { Runtime } from '../../src/runtime/runtime.ts';
import { randomness } from './randomness.ts';
import { type Seen, watch } from './slots/slots-fixture.ts';

interface Manager {
  readonly model: string;
  /** It has, or had, the model to itself; or it left the queue. */
  passed: boolean;
}

export interface DisorderOptions {
  readonly seed: number;
  readonly runtime: Runtime;
  readonly maxLoadedModels: number;
  /** A fresh segment; its `onStart` is replaced. */
  readonly segment: () => Segment;
  readonly paths: readonly string[];
  /** Errors that the test provokes: the beginnings of `CODE detail`. */
  readonly provoked: readonly string[];
}

/** What may come of an operation that nobody provoked to fail. */
const EXPECTED = ['CANCELLED', 'BUSY_TIMEOUT', 'BUSY_OVERDUE', 'MODEL_LOAD_TIMEOUT', 'QUEUE_FULL'];

export class Disorder {
  readonly #options: DisorderOptions;
  readonly #random: ReturnType<typeof randomness>;
  readonly #ids: readonly string[];
  readonly #operations: Seen<unknown>[] = [];
  readonly #cancels: (() => void)[] = [];
  readonly #managers: Manager[] = [];
  readonly #streams = new Map<StreamLease, string>();
  readonly #wrong: string[] = [];
  readonly counts: Record<string, number> = {};

  constructor(options: DisorderOptions) {
    this.#options = options;
    this.#random = randomness(options.seed);
    this.#ids = [...options.runtime.entries.keys()];
  }

  get pick() {
    return this.#random.pick;
  }
  get unsettled(): number {
    return this.#operations.filter(({ settled }) => !settled).length;
  }

  /** One random operation; none of them is waited for. */
  step(): void {
    const { pick, one } = this.#random;
    const model = one(this.#ids) ?? '';
    const submit = () => this.#submit(model);
    const rare = [
      () => this.#manage('load', (signal) => this.#runtime.load(model, { signal })),
      () => this.#manage('unload', (signal) => this.#runtime.unload(model, { signal })),
      () => this.#reconfigure(model),
      () => this.#reconfigure(model),
      () => this.#unloadMany(),
      () => this.#note('prepare', this.#runtime.entry(model).prepare({ busyTimeoutMs: 500 })),
      () => this.#openStream(model),
      () => this.#openStream(model),
    ];
    const operation = pick(3) > 0 ? submit : (one(rare) ?? submit);
    operation();
    if (pick(10) === 0) one(this.#cancels)?.();
    if (pick(3) === 0) this.#endStream();
  }

  /** Ends what would hold slots for ever. */
  endStreams(): void {
    while (this.#streams.size > 0) this.#endStream();
  }

  check(): void {
    const { models } = RuntimeStatus.parse(this.#runtime.snapshot());
    for (const model of models) {
      expect(model.activeSlots).toBeLessThanOrEqual(model.slots);
      if (model.exclusive) expect(model.activeSlots).toBe(0);
      if (model.loaded) expect(model.sessionBytes).toHaveLength(model.slots);
      const own = [...this.#streams].filter(([, id]) => id === model.id);
      expect(new Set(own.map(([{ slot }]) => slot)).size).toBe(own.length);
      expect(own.length + model.batches.runningBatches).toBeLessThanOrEqual(model.activeSlots);
    }
    const resident = models.filter(({ loaded }) => loaded).length;
    expect(resident).toBeLessThanOrEqual(this.#options.maxLoadedModels);
    expect(this.#wrong).toEqual([]);
  }

  /** Everything that was begun has ended, in a way that something explains. */
  expectAllEnded(): void {
    this.check();
    expect(this.unsettled).toBe(0);
    const failures = this.#operations.flatMap(({ error }) => (error ? [describe(error)] : []));
    const allowed = [...EXPECTED, ...this.#options.provoked];
    const explained = (failed: string) => allowed.some((begin) => failed.startsWith(begin));
    expect(failures.filter((failed) => !explained(failed))).toEqual([]);
    for (const { batches, activeSlots, queuedRequests, waitingManagers } of this.#runtime.snapshot()
      .models) {
      const { queuedItems, runningItems, runningBatches } = batches;
      expect([queuedItems, runningItems, runningBatches]).toEqual([0, 0, 0]);
      expect([activeSlots, queuedRequests, waitingManagers]).toEqual([0, 0, 0]);
    }
  }

  get #runtime(): Runtime {
    return this.#options.runtime;
  }

  #submit(model: string): void {
    const { signal, abort } = cancellable();
    const older = this.#managers.length;
    const onStart = (): void => {
      const own = (each: Manager) => each.model === model;
      const before = this.#managers.slice(0, older).filter(own);
      const after = this.#managers.slice(older).filter(own);
      if (before.some(({ passed }) => !passed)) this.#wrong.push('a segment passed a manager');
      if (after.some(({ passed }) => passed)) this.#wrong.push('a manager passed a segment');
    };
    const segment = { ...this.#options.segment(), onStart };
    const busyTimeoutMs = this.pick(3) * 300;
    const ended = this.#runtime.entry(model).submit(segment, { signal, busyTimeoutMs });
    this.#note('submit', ended, abort);
  }

  #reconfigure(model: string): void {
    const { pick, one } = this.#random;
    const next: Partial<ModelConfiguration> = {
      slots: 1 + pick(4),
      path: one(this.#options.paths) ?? '',
      maxBatch: 1 + pick(3),
    };
    const strategy = pick(2) === 0 ? 'load-first' : 'retire-first';
    const manager: Manager = { model, passed: false };
    this.#managers.push(manager);
    const { signal, abort } = cancellable();
    const change = (now: ModelConfiguration): ModelConfiguration => {
      manager.passed = true;
      const { activeSlots, exclusive } = this.#runtime.entry(model).snapshot();
      if (activeSlots > 0 || !exclusive) this.#wrong.push('a manager was not alone');
      return { ...now, ...next };
    };
    const ended = this.#runtime.reconfigure(model, change, { strategy, signal });
    // A signal that comes after the grant changes nothing: the queue decides whether the manager has left.
    const leave = (): void => {
      const waiting = () => this.#runtime.entry(model).slots.state().waitingManagers;
      const before = waiting();
      abort();
      if (waiting() < before) this.#managers.splice(this.#managers.indexOf(manager), 1, GONE);
    };
    this.#note('reconfigure', ended, leave);
  }

  #manage(name: string, begin: (signal: AbortSignal) => Promise<unknown>): void {
    const { signal, abort } = cancellable();
    this.#note(name, begin(signal), abort);
  }

  #unloadMany(): void {
    const chosen = this.#ids.filter(() => this.pick(2) === 0);
    this.#note('unloadMany', this.#runtime.unloadMany(this.pick(4) === 0 ? 'all' : chosen));
  }

  #openStream(model: string): void {
    const { signal, abort } = cancellable();
    const opening = this.#runtime.entry(model).acquireStream({ signal, busyTimeoutMs: 400 });
    const held = opening.then((stream) => void this.#streams.set(stream, model));
    this.#note('stream', held, abort);
  }

  #endStream(): void {
    const [stream] = this.#streams.keys();
    if (!stream) return;
    this.#streams.delete(stream);
    stream.release();
  }

  #note(name: string, ended: Promise<unknown>, cancel?: () => void): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    this.#operations.push(watch(ended));
    if (cancel) this.#cancels.push(cancel);
    if (this.#cancels.length > 30) this.#cancels.shift();
  }
}

/** In the place of a manager that left the queue: of no model, so that it orders nothing. */
const GONE: Manager = { model: '', passed: true };

function cancellable() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}

function describe(error: unknown): string {
  return error instanceof WavepoolError ? `${error.code} ${error.detail}` : String(error);
}
