/** An engine whose batches and loads end when the test says so. */
import { WavepoolError } from '../../src/core/errors.ts';
import type {
  Audio,
  Engine,
  LoadedModel,
  NativeRun,
  PoolOptions,
  SessionPool,
  TaskItem,
  TaskOutcome,
  TaskResult,
  TaskStream,
} from '../../src/runtime/engine.ts';

export function result(text: string): TaskResult {
  return {
    text,
    tokens: new Int32Array(),
    pieces: [],
    language: '',
    truncated: false,
    probabilities: new Float32Array(),
  };
}

/** An input that is never read: the double looks at sample ranges only. */
export const silence: Audio = {
  info: { container: 'wav', codec: 'pcm', sampleRate: 16_000, channels: 1, bitsPerSample: 16 },
  endSample: Number.MAX_SAFE_INTEGER,
  ended: true,
  warnings: [],
  residentBytes: 0,
  decodeUntil: () => Promise.resolve(),
  release: () => undefined,
  close: () => Promise.resolve(),
};

type OnOutcome = (index: number, outcome: TaskOutcome) => void;

/** One native batch. An item's text is `SLOT.CALL:START`: its session, the session's call count, its first sample. */
export class DoubleRun implements NativeRun {
  readonly slot: number;
  readonly items: readonly TaskItem[];
  readonly done: Promise<readonly TaskOutcome[]>;
  readonly cancelled: number[] = [];
  readonly #call: number;
  readonly #onOutcome: OnOutcome | undefined;
  readonly #outcomes = new Map<number, TaskOutcome>();
  #settle: { resolve(outcomes: TaskOutcome[]): void; reject(error: Error): void } | undefined;

  constructor(slot: number, call: number, items: readonly TaskItem[], onOutcome?: OnOutcome) {
    this.slot = slot;
    this.items = items;
    this.#call = call;
    this.#onOutcome = onOutcome;
    this.done = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    for (const [index, { signal }] of items.entries()) {
      const cancel = () => this.#cancel(index);
      if (signal?.aborted) cancel();
      else signal?.addEventListener('abort', cancel, { once: true });
    }
  }

  get starts(): number[] {
    return this.items.map((item) => item.startSample);
  }

  #cancel(index: number): void {
    if (!this.#outcomes.has(index)) this.cancelled.push(index);
  }

  /** Ends one item while the batch goes on. */
  report(index: number, outcome: TaskOutcome = this.#success(index)): void {
    this.#outcomes.set(index, outcome);
    this.#onOutcome?.(index, outcome);
  }

  /** Ends the batch: cancelled items as cancelled, the others well. */
  finish(): void {
    this.#settle?.resolve(
      this.items.map((_, index) => this.#outcomes.get(index) ?? this.#end(index)),
    );
  }

  finishWith(outcomes: TaskOutcome[]): void {
    this.#settle?.resolve(outcomes);
  }

  fail(error: Error): void {
    this.#settle?.reject(error);
  }

  #end(index: number): TaskOutcome {
    if (!this.cancelled.includes(index)) return this.#success(index);
    return { ok: false, error: new WavepoolError('CANCELLED', 'by native code') };
  }

  #success(index: number): TaskOutcome {
    const text = `${this.slot}.${this.#call}:${this.items[index]?.startSample}`;
    return { ok: true, result: result(text) };
  }
}

/** One stream: its parts say how many chunks it has had. */
export class DoubleStream implements TaskStream {
  chunks = 0;
  ended = false;
  readonly #onEnd: () => void;

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  push(): Promise<TaskResult> {
    this.chunks += 1;
    return Promise.resolve(result(`${this.chunks}`));
  }

  async finish(): Promise<TaskResult> {
    await this.reset();
    return result(`${this.chunks}`);
  }

  reset(): Promise<void> {
    this.ended = true;
    this.#onEnd();
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.reset();
  }
}

export class DoublePool implements SessionPool {
  readonly size: number;
  readonly capacity: number;
  readonly maxBatch: number;
  readonly sessionBytes: readonly number[];
  readonly runs: DoubleRun[] = [];
  readonly streams: DoubleStream[] = [];
  readonly #running = new Set<number>();
  readonly #calls = new Map<number, number>();
  readonly #onClose: () => Promise<void>;

  constructor(
    size: number,
    maxBatch: number,
    onClose: () => Promise<void> = () => Promise.resolve(),
    capacity = 8,
  ) {
    this.capacity = capacity;
    this.size = size;
    this.maxBatch = maxBatch;
    this.sessionBytes = Array.from({ length: size }, () => 1_000);
    this.#onClose = onClose;
  }

  run(slot: number, items: readonly TaskItem[], onOutcome?: OnOutcome): NativeRun {
    if (this.#running.has(slot)) throw new WavepoolError('SLOT_BUSY', `${slot}`);
    this.#running.add(slot);
    const call = (this.#calls.get(slot) ?? 0) + 1;
    this.#calls.set(slot, call);
    const run = new DoubleRun(slot, call, items, onOutcome);
    this.runs.push(run);
    const ended = () => this.#running.delete(slot);
    run.done.then(ended, ended);
    return run;
  }

  startStream(slot: number): Promise<TaskStream> {
    if (this.#running.has(slot)) {
      return Promise.reject(new WavepoolError('SLOT_BUSY', `${slot}`));
    }
    this.#running.add(slot);
    const stream = new DoubleStream(() => this.#running.delete(slot));
    this.streams.push(stream);
    return Promise.resolve(stream);
  }

  close(): Promise<void> {
    return this.#onClose();
  }
}

/** Loads well at once unless the test replaces `onLoad`, `onPool` or `onPoolClose`; they are told the model's path. */
export class DoubleEngine implements Engine {
  readonly build = { identity: 'double', ggml: '', compiler: '', flags: '', backend: 'cpu' };
  /** Loads and closes in their order. */
  readonly trace: string[] = [];
  /** The same, with the pools that were made, each with its path. */
  readonly events: string[] = [];
  readonly pools: DoublePool[] = [];
  /** Sessions that the family supports, by path; 8 where none is given. */
  readonly capacities = new Map<string, number>();
  onLoad: (path: string) => Promise<void> = () => Promise.resolve();
  onPool: (path: string) => Promise<void> = () => Promise.resolve();
  onPoolClose: (path: string) => Promise<void> = () => Promise.resolve();

  /** Weights and sessions that exist. */
  live = { weights: 0, sessions: 0 };

  createPipe(): never {
    throw new Error('the double has no pipes');
  }

  openAudio(): Promise<Audio> {
    return Promise.resolve(silence);
  }

  openLiveAudio(): never {
    throw new Error('the double has no live audio');
  }

  async loadModel(path: string): Promise<LoadedModel> {
    this.trace.push(`load ${path}`);
    this.events.push(`load ${path}`);
    await this.onLoad(path);
    this.live.weights += 1;
    let closed = false;
    return {
      info: {
        family: 'double',
        task: 'asr',
        name: path,
        weightBytes: 5_000,
        nativeBatch: true,
        maxSegmentSeconds: 0,
        windowSamples: 0,
        languages: [],
        optionNames: ['suppressBlank'],
        stateful: path.startsWith('vad'),
      },
      createPool: (options) => this.#createPool(path, options),
      createState: () => ({ kind: 'task-state' }),
      close: () => {
        if (closed) return Promise.resolve();
        closed = true;
        this.live.weights -= 1;
        this.trace.push('close weights');
        this.events.push(`close weights ${path}`);
        return Promise.resolve();
      },
    };
  }

  async #createPool(path: string, options: PoolOptions): Promise<SessionPool> {
    await this.onPool(path);
    const capacity = this.capacities.get(path) ?? 8;
    if (options.slots > capacity) {
      throw new WavepoolError('SLOTS_UNSUPPORTED', `double supports ${capacity} slots here`);
    }
    this.events.push(`pool ${path} ${options.slots}`);
    this.live.sessions += options.slots;
    const close = async (): Promise<void> => {
      await this.onPoolClose(path);
      this.live.sessions -= options.slots;
      this.trace.push('close sessions');
      this.events.push(`close sessions ${path}`);
    };
    const pool = new DoublePool(options.slots, options.maxBatch, close, capacity);
    this.pools.push(pool);
    return pool;
  }
}
