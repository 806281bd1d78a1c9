/** The work of a measuring process: it has a pool as a worker has one, and feeds it with the speech of this package. */
import type { TuningRequest } from '../../core/evidence/tuning.ts';
import type { Clock } from '../../runtime/clock.ts';
import { type Audio, type Engine, SAMPLE_RATE, type SessionPool } from '../../runtime/engine.ts';
import { makeWorkload } from '../validation/workload.ts';

/** Long enough for the shape of real segments, short enough that a batch of them ends soon. */
const LONGEST_SECONDS = 6;

interface Stretch {
  readonly audio: Audio;
  readonly startSample: number;
  readonly endSample: number;
}

export class TuningPool {
  readonly #pool: SessionPool;
  readonly #stretches: readonly Stretch[];
  readonly #clock: Pick<Clock, 'now'>;
  #next = 0;

  private constructor(pool: SessionPool, stretches: readonly Stretch[], clock: Pick<Clock, 'now'>) {
    this.#pool = pool;
    this.#stretches = stretches;
    this.#clock = clock;
  }

  /** Loads the model, decodes the speech and runs one batch on every slot. @throws {WavepoolError} */
  static async open(
    engine: Engine,
    { path, slots, threads, maxBatch }: Extract<TuningRequest, { type: 'open' }>,
    clock: Pick<Clock, 'now'>,
  ): Promise<TuningPool> {
    const model = await engine.loadModel(path);
    const { maxSegmentSeconds: most, windowSamples } = model.info;
    const maxSegmentSeconds = most > 0 ? Math.min(most, LONGEST_SECONDS) : LONGEST_SECONDS;
    const workload = await makeWorkload({ maxSegmentSeconds, windowSamples });
    const inputs = new Map<string, Audio>();
    for (const item of workload.items) {
      if (inputs.has(item.path)) continue;
      const audio = await engine.openAudio({ kind: 'file', path: item.path });
      await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
      inputs.set(item.path, audio);
    }
    const stretches = workload.items.flatMap(({ path: file, startSample, endSample }) => {
      const audio = inputs.get(file);
      return audio === undefined ? [] : [{ audio, startSample, endSample }];
    });
    const pool = await model.createPool({ slots, threads, maxBatch, mode: 'offline' });
    const tuning = new TuningPool(pool, stretches, clock);
    await Promise.all(Array.from({ length: slots }, (_, slot) => tuning.#run(slot, 1)));
    return tuning;
  }

  /** Every slot runs one batch after the other; none is begun after `durationMs`. */
  async measure(batch: number, durationMs: number) {
    const startedAt = this.#clock.now();
    let samples = 0;
    const work = async (slot: number): Promise<void> => {
      do samples += await this.#run(slot, batch);
      while (this.#clock.now() - startedAt < durationMs);
    };
    await Promise.all(Array.from({ length: this.#pool.size }, (_, slot) => work(slot)));
    const wallSeconds = Math.max(1e-3, (this.#clock.now() - startedAt) / 1_000);
    return { audioSeconds: samples / SAMPLE_RATE, wallSeconds };
  }

  /** @returns the samples that were run */
  async #run(slot: number, batch: number): Promise<number> {
    const items = Array.from({ length: batch }, () => this.#take());
    await this.#pool.run(slot, items).done;
    return items.reduce((sum, { startSample, endSample }) => sum + endSample - startSample, 0);
  }

  #take() {
    const stretch = this.#stretches[this.#next++ % this.#stretches.length];
    if (stretch === undefined) throw new RangeError('there is no speech to measure with');
    return { ...stretch, options: {} };
  }
}
