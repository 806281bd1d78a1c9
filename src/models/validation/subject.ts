/** The model under validation, over the same runtime that serves jobs: the one file here that knows its interface. */
import { setTimeout as delay } from 'node:timers/promises';
import type { StartPlan } from '../../core/evidence/validation-ipc.ts';
import type { ModelStatus } from '../../core/worker/status.ts';
import type { Segment } from '../../runtime/batches/batch-item.ts';
import { systemClock } from '../../runtime/clock.ts';
import type { Engine, TaskResult, TaskState } from '../../runtime/engine.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { StreamLease } from '../../runtime/models/stream-lease.ts';
import { Runtime } from '../../runtime/runtime.ts';

/** Longer than any item. */
const LONGEST_ITEM_SECONDS = 60;
const IDLE_TRIES = 2_000;

/** One entry of the runtime. */
export class Subject {
  readonly #entry: ModelEntry;

  constructor(entry: ModelEntry) {
    this.#entry = entry;
  }

  load(): Promise<void> {
    return this.#entry.load();
  }

  unload(): Promise<void> {
    return this.#entry.unload();
  }

  submit(segment: Segment): Promise<TaskResult> {
    return this.#entry.submit(segment);
  }

  /** Leases a slot for a stream. */
  acquireStream(): Promise<StreamLease> {
    return this.#entry.acquireStream();
  }

  /** Resolves when no slot is leased: requests end a moment before their leases do. Gives up after a while. */
  async idle(): Promise<void> {
    for (let tries = 0; tries < IDLE_TRIES && this.status().activeSlots > 0; tries += 1) {
      await delay(1);
    }
  }

  /** Makes the state that a request of a stateful task carries. The model must be loaded. */
  createState(): TaskState {
    return this.#entry.model.createState();
  }

  status(): ModelStatus {
    return this.#entry.snapshot();
  }
}

export class Subjects implements AsyncDisposable {
  readonly #runtime: Runtime;
  readonly #plan: StartPlan;

  constructor(engine: Engine, plan: StartPlan) {
    this.#runtime = new Runtime(engine, systemClock);
    this.#plan = plan;
  }

  /** Registers the model, or a file in its place, under one more id; nothing is loaded. */
  add(id: string, path = this.#plan.model.path): Subject {
    const { slots, threads, batch, mode } = this.#plan;
    const entry = this.#runtime.register(id, {
      path,
      mode: mode === 'streaming' ? 'streaming' : 'offline',
      slots,
      threads,
      maxBatch: batch,
      maxAudioSeconds: batch * LONGEST_ITEM_SECONDS,
      maxWaitMs: 0,
      busyTimeoutMs: 0,
    });
    return new Subject(entry);
  }

  /** Every model at once. */
  async unloadAll(): Promise<void> {
    await this.#runtime.unloadMany('all');
  }

  status(): readonly ModelStatus[] {
    return this.#runtime.snapshot().models;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#runtime.close();
  }
}
