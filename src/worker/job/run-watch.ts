/** An engine that knows which of its native batches has been running longest: the supervisor looks for one that never ends. */
import type {
  Engine,
  LoadedModel,
  NativeRun,
  PoolOptions,
  SessionPool,
  TaskItem,
  TaskOutcome,
} from '../../runtime/engine.ts';

export class RunWatch implements Engine {
  readonly #engine: Engine;
  /** Numbers of the batches that run, oldest first. */
  readonly #running = new Set<number>();
  #started = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Names the batch that has been running longest; null when none runs. */
  get oldestRun(): number | null {
    const [oldest = null] = this.#running;
    return oldest;
  }

  get build() {
    return this.#engine.build;
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
    return {
      info: model.info,
      createPool: async (options: PoolOptions) => this.#watched(await model.createPool(options)),
      createState: () => model.createState(),
      close: () => model.close(),
    };
  }

  #watched(pool: SessionPool): SessionPool {
    return {
      size: pool.size,
      capacity: pool.capacity,
      maxBatch: pool.maxBatch,
      get sessionBytes() {
        return pool.sessionBytes;
      },
      startStream: (slot, options) => pool.startStream(slot, options),
      run: (slot, items, onOutcome) => this.#run(pool, slot, items, onOutcome),
      close: () => pool.close(),
    };
  }

  #run(
    pool: SessionPool,
    slot: number,
    items: readonly TaskItem[],
    onOutcome: ((index: number, outcome: TaskOutcome) => void) | undefined,
  ): NativeRun {
    const run = pool.run(slot, items, onOutcome);
    this.#started += 1;
    const number = this.#started;
    this.#running.add(number);
    const ended = (): void => void this.#running.delete(number);
    run.done.then(ended, ended);
    return run;
  }
}
