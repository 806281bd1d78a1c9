/**
 * What `wavepool bench` measures: the engine alone, on the speech that ships with the package. No queue, no result files, and no
 * peers, which are for the benchmark of the repository (docs/performance.md).
 */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import {
  type Audio,
  type Engine,
  type LoadedModel,
  SAMPLE_RATE,
  type SessionPool,
} from '../../runtime/engine.ts';

/** Whole windows in 30 s: what a worker decodes and searches at a time. */
const DETECT_SECONDS = 30;

export interface Shape {
  readonly slots: number;
  readonly threads: number;
  readonly batch: number;
}

export interface ShapeSpeed extends Shape {
  readonly audioSecondsPerSecond: number;
}

export interface ModelSpeed {
  /** From reading the weights to the first text of one recording, alone in its slot. */
  readonly firstResultSeconds: number;
  readonly shapes: readonly ShapeSpeed[];
}

export interface MeasureOptions {
  /** For each figure. */
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** One thread and one clip at a time, one slot with a batch, and the cores divided into slots and into threads. */
export function shapesFor(cores: number, batch: number): Shape[] {
  const one: Shape[] = [
    { slots: 1, threads: 1, batch: 1 },
    { slots: 1, threads: 1, batch },
  ];
  if (cores === 1) return one;
  return [...one, { slots: 1, threads: cores, batch }, { slots: cores, threads: 1, batch }];
}

/** The recordings of a folder, in memory. */
export class Recordings implements AsyncDisposable {
  readonly files: readonly string[];
  readonly audios: readonly Audio[];

  private constructor(files: readonly string[], audios: readonly Audio[]) {
    this.files = files;
    this.audios = audios;
  }

  /** @throws {WavepoolError} INPUT_NOT_FOUND when there are none */
  static async open(engine: Engine, folder: string): Promise<Recordings> {
    const names = (await readdir(folder)).filter((name) => /\.(flac|mp3|wav)$/.test(name));
    if (names.length === 0) throw new WavepoolError('INPUT_NOT_FOUND', folder);
    const files = names.toSorted().map((name) => path.join(folder, name));
    const audios: Audio[] = [];
    for (const file of files) audios.push(await decodeWhole(engine, file));
    return new Recordings(files, audios);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const audio of this.audios) await audio.close();
  }
}

async function decodeWhole(engine: Engine, file: string): Promise<Audio> {
  const audio = await engine.openAudio({ kind: 'file', path: file });
  await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
  return audio;
}

/** Runs `step`, which returns the samples that it did, until the time is up; seconds of audio per second. */
async function speedOf(
  step: () => Promise<number>,
  { seconds, signal }: MeasureOptions,
): Promise<number> {
  const startedAt = performance.now();
  let samples = 0;
  let elapsed = 0;
  do {
    signal.throwIfAborted();
    samples += await step();
    elapsed = (performance.now() - startedAt) / 1_000;
  } while (elapsed < seconds);
  return samples / SAMPLE_RATE / elapsed;
}

/** Decoding and resampling, one file after the other. */
export function decodeSpeed(
  engine: Engine,
  { files }: Recordings,
  options: MeasureOptions,
): Promise<number> {
  return speedOf(async () => {
    let samples = 0;
    for (const file of files) {
      const audio = await decodeWhole(engine, file);
      samples += audio.endSample;
      await audio.close();
    }
    return samples;
  }, options);
}

/** Speech detection on one thread. */
export async function detectSpeed(
  engine: Engine,
  weights: string,
  { audios }: Recordings,
  options: MeasureOptions,
): Promise<number> {
  const model = await engine.loadModel(weights);
  try {
    const pool = await model.createPool({ slots: 1, threads: 1, maxBatch: 1, mode: 'offline' });
    try {
      return await speedOf(() => detectAll(model, pool, audios), options);
    } finally {
      await pool.close();
    }
  } finally {
    await model.close();
  }
}

async function detectAll(
  model: LoadedModel,
  pool: SessionPool,
  audios: readonly Audio[],
): Promise<number> {
  const { windowSamples } = model.info;
  const step = Math.floor((DETECT_SECONDS * SAMPLE_RATE) / windowSamples) * windowSamples;
  let samples = 0;
  for (const audio of audios) {
    const state = model.createState();
    for (let startSample = 0; startSample < audio.endSample; startSample += step) {
      const endSample = Math.min(startSample + step, audio.endSample);
      await runBatch(pool, 0, [{ audio, startSample, endSample, state, options: {} }]);
    }
    samples += audio.endSample;
  }
  return samples;
}

async function runBatch(
  pool: SessionPool,
  slot: number,
  items: Parameters<SessionPool['run']>[1],
): Promise<void> {
  for (const outcome of await pool.run(slot, items).done) {
    if (!outcome.ok) throw outcome.error;
  }
}

/** Recognition by shape; shapes that the family does not support are left out. */
export async function recognizeSpeed(
  engine: Engine,
  weights: string,
  recordings: Recordings,
  shapes: readonly Shape[],
  options: MeasureOptions,
): Promise<ModelSpeed> {
  const startedAt = performance.now();
  const model = await engine.loadModel(weights);
  try {
    const first = await openPool(model, { slots: 1, threads: 1, batch: 1 });
    await runBatch(first, 0, [segmentOf(model, recordings, 0)]);
    const firstResultSeconds = (performance.now() - startedAt) / 1_000;
    await first.close();
    const speeds: ShapeSpeed[] = [];
    for (const shape of shapes) {
      const audioSecondsPerSecond = await shapeSpeed(model, recordings, shape, options);
      if (audioSecondsPerSecond !== undefined) speeds.push({ ...shape, audioSecondsPerSecond });
    }
    return { firstResultSeconds, shapes: speeds };
  } finally {
    await model.close();
  }
}

function openPool(model: LoadedModel, { slots, threads, batch }: Shape): Promise<SessionPool> {
  return model.createPool({ slots, threads, maxBatch: batch, mode: 'offline' });
}

/** The recordings in turn, without end, each as long as the model takes it. */
function segmentOf(model: LoadedModel, { audios }: Recordings, index: number) {
  const audio = audios[index % audios.length];
  if (audio === undefined) throw new WavepoolError('INTERNAL', 'no recordings');
  const { maxSegmentSeconds } = model.info;
  const most = maxSegmentSeconds > 0 ? maxSegmentSeconds * SAMPLE_RATE : audio.endSample;
  const endSample = Math.min(audio.endSample, Math.floor(most));
  return { audio, startSample: 0, endSample, options: {} };
}

/** Undefined for a shape that the family does not support. */
async function shapeSpeed(
  model: LoadedModel,
  recordings: Recordings,
  shape: Shape,
  options: MeasureOptions,
): Promise<number | undefined> {
  const pool = await openPool(model, shape).catch((error: unknown) => {
    if (error instanceof WavepoolError && error.code === 'SLOTS_UNSUPPORTED') return undefined;
    throw error;
  });
  if (pool === undefined) return undefined;
  try {
    let next = 0;
    const slots = Array.from({ length: pool.size }, (_, slot) =>
      speedOf(async () => {
        const items = Array.from({ length: shape.batch }, () =>
          segmentOf(model, recordings, next++),
        );
        await runBatch(pool, slot, items);
        return items.reduce((sum, { endSample }) => sum + endSample, 0);
      }, options),
    );
    // However one ends, none may still run when the pool goes.
    const speeds = await Promise.allSettled(slots);
    return speeds.reduce((sum, speed) => {
      if (speed.status === 'rejected') throw speed.reason;
      return sum + speed.value;
    }, 0);
  } finally {
    await pool.close();
  }
}
