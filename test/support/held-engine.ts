/** An engine whose recognizers can be held where a test wants them: before a load, after a run, before an end. */
import type {
  Engine,
  LoadedModel,
  NativeRun,
  PoolOptions,
  SessionPool,
  TaskItem,
  TaskOutcome,
} from '../../src/runtime/engine.ts';

/** A point that work passes, unless it is closed. */
export class Gate {
  #opened: Promise<void> | undefined;
  #open: () => void = () => undefined;

  get closed(): boolean {
    return this.#opened !== undefined;
  }

  close(): void {
    this.#opened ??= new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  open(): void {
    this.#opened = undefined;
    this.#open();
  }

  async passed(): Promise<void> {
    await this.#opened;
  }
}

export class HeldEngine implements Engine {
  readonly #engine: Engine;
  /** Recognizers pass it before they are loaded. */
  readonly loads = new Gate();
  /** Results of recognizers come when it is open, though they are there before. */
  readonly runs = new Gate();
  /** Sessions end behind it. */
  readonly closes = new Gate();
  /** Ends of recognizers, in their order. */
  readonly trace: ('sessions' | 'weights')[] = [];
  /** Texts of all segments that were recognized, in the order in which their results came. */
  readonly texts: string[] = [];

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get build() {
    return this.#engine.build;
  }

  openGates(): void {
    for (const gate of [this.loads, this.runs, this.closes]) gate.open();
  }

  createPipe() {
    return this.#engine.createPipe();
  }

  openAudio(source: Parameters<Engine['openAudio']>[0]) {
    return this.#engine.openAudio(source);
  }

  openLiveAudio(format?: Parameters<Engine['openLiveAudio']>[0]) {
    return this.#engine.openLiveAudio(format);
  }

  async loadModel(path: string): Promise<LoadedModel> {
    const model = await this.#engine.loadModel(path);
    if (model.info.task !== 'asr') return model;
    await this.loads.passed();
    return {
      info: model.info,
      createPool: async (options: PoolOptions) => this.#hold(await model.createPool(options)),
      createState: () => model.createState(),
      close: async () => {
        await model.close();
        this.trace.push('weights');
      },
    };
  }

  #hold(pool: SessionPool): SessionPool {
    return {
      size: pool.size,
      capacity: pool.capacity,
      maxBatch: pool.maxBatch,
      sessionBytes: pool.sessionBytes,
      startStream: (slot, options) => pool.startStream(slot, options),
      run: (slot, items, onOutcome) => this.#run(pool, slot, items, onOutcome),
      close: async () => {
        await this.closes.passed();
        await pool.close();
        this.trace.push('sessions');
      },
    };
  }

  #run(
    pool: SessionPool,
    slot: number,
    items: readonly TaskItem[],
    onOutcome: ((index: number, outcome: TaskOutcome) => void) | undefined,
  ): NativeRun {
    const outcomes: [number, TaskOutcome][] = [];
    const passed = this.runs.passed();
    const run = pool.run(slot, items, (index, outcome) => outcomes.push([index, outcome]));
    const end = async () => {
      const all = await run.done;
      await passed;
      for (const [index, outcome] of outcomes) {
        if (outcome.ok) this.texts.push(outcome.result.text);
        onOutcome?.(index, outcome);
      }
      return all;
    };
    return { done: end() };
  }
}
