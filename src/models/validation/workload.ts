/**
 * The procedure as data: which stretches of speech are run, and in which waves. Everything follows from the seed, the mode
 * and the count, so a start can be repeated exactly.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { EvidenceManifest } from '../../core/evidence/evidence.ts';
import type { StartGroup, StartPlan, StartWave } from '../../core/evidence/validation-ipc.ts';
import { sha256Of } from '../../core/files/file-hash.ts';
import { packageFolder } from '../../core/package-folder.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';

/** Fresh starts of the worker at each count. */
export const STARTS = 3;
/** Warm waves of a start; the procedure asks for ten at the largest count, and any count may become that. */
export const WARM_WAVES = 12;
const WAVES_AFTER_RELOAD = 2;
const SEED = 20_261_129;
/** Stretches that are cut out of the fixtures, besides the fixtures themselves. */
const CUTS = 6;
/** Items from the beginning of one cold group to that of the next. */
const COLD_STRIDE = 5;
const SHORTEST_CUT_SECONDS = 1;

interface Fixture {
  readonly name: string;
  /** The length of the file once it is decoded to 16 kHz. */
  readonly samples: number;
}

/** Public-domain readings (NOTICE); the first ones make the cold waves. */
const FIXTURES: readonly Fixture[] = [
  { name: 'two-cities.flac', samples: 320_000 },
  { name: 'sense-0870.flac', samples: 113_600 },
  { name: 'sense-0880.flac', samples: 47_840 },
  { name: 'sense-0890.flac', samples: 84_800 },
  { name: 'sense-0920.flac', samples: 96_800 },
  { name: 'sense-0930.flac', samples: 52_640 },
];

/** The lengths of audio that the model takes at once. */
export interface ItemLimits {
  /** 0 = unbounded. */
  readonly maxSegmentSeconds: number;
  /** Lengths are multiples of this; 0 or 1 = any. */
  readonly windowSamples: number;
}

export interface WorkItem {
  readonly fixture: string;
  readonly path: string;
  readonly startSample: number;
  readonly endSample: number;
}

export interface Workload {
  readonly seed: number;
  readonly items: readonly WorkItem[];
  readonly manifest: EvidenceManifest['items'];
}

/** A small generator with a good spread (mulberry32): the same numbers on every machine. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b_79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled(count: number, random: () => number): number[] {
  const order = Array.from({ length: count }, (_, index) => index);
  for (let last = count - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other] ?? 0, order[last] ?? 0];
  }
  return order;
}

/** Whole fixtures and seeded cuts of them, as long as the model allows: every length differs. */
export async function makeWorkload(limits: ItemLimits): Promise<Workload> {
  const folder = packageFolder('evidence/fixtures');
  const random = randomNumbers(SEED);
  const window = Math.max(1, limits.windowSamples);
  const most = limits.maxSegmentSeconds > 0 ? limits.maxSegmentSeconds * SAMPLE_RATE : Infinity;
  const shortest = SHORTEST_CUT_SECONDS * SAMPLE_RATE;
  const stretch = ({ name }: Fixture, startSample: number, samples: number): WorkItem => {
    const length = Math.max(window, Math.floor(Math.min(samples, most) / window) * window);
    const endSample = startSample + length;
    return { fixture: name, path: path.join(folder, name), startSample, endSample };
  };
  const whole = FIXTURES.map((fixture) => stretch(fixture, 0, fixture.samples));
  const cuts = Array.from({ length: CUTS }, (_, index) => {
    const fixture = FIXTURES[index % FIXTURES.length] ?? { name: '', samples: 0 };
    const samples = shortest + Math.floor(random() * (fixture.samples * 0.8 - shortest));
    const start = Math.floor(random() * (fixture.samples - samples));
    return stretch(fixture, start, samples);
  });
  const items = [...whole, ...cuts];
  const hashes = new Map<string, string>();
  for (const { fixture, path: file } of items) {
    if (!hashes.has(fixture)) hashes.set(fixture, sha256Of(await readFile(file)));
  }
  return {
    seed: SEED,
    items,
    manifest: items.map(({ fixture, startSample, endSample }) => {
      return { fixture, sha256: hashes.get(fixture) ?? '', startSample, endSample };
    }),
  };
}

export type WavePlan = Pick<StartPlan, 'coldGroups' | 'cold' | 'warm' | 'again'>;

/**
 * The waves of one start. One slot runs every item, forwards and backwards, which gives the references; more slots run
 * mixed waves, each second one the one before it in reversed order.
 * @param start 0…2
 * @param batch items of one group
 */
export function planWaves(items: number, slots: number, batch: number, start: number): WavePlan {
  const coldGroups = Array.from({ length: STARTS }, (_, group) =>
    Array.from({ length: batch }, (_unused, at) => (group * COLD_STRIDE + at) % items),
  );
  const cold = Array.from({ length: slots }, (_, slot) => (start + slot) % STARTS);
  const random = randomNumbers(SEED + slots * 101 + start);
  const warm =
    slots === 1 ? serialWaves(items, batch, random) : mixedWaves(items, slots, batch, random);
  return { coldGroups, cold, warm, again: warm.slice(0, WAVES_AFTER_RELOAD) };
}

/** Each item at least twice, in two orders. */
function serialWaves(items: number, batch: number, random: () => number): StartWave[] {
  const order = shuffled(items, random);
  const groups = Array.from({ length: Math.ceil(items / batch) }, (_, at) =>
    takeAround(order, at * batch, batch),
  );
  const there = groups.map((group): StartWave => [group]);
  const back = groups.toReversed().map((group): StartWave => [group.toReversed()]);
  const round = [...there, ...back];
  return Array.from(
    { length: Math.max(WARM_WAVES, round.length) },
    (_, at) => round[at % round.length] ?? [],
  );
}

function mixedWaves(
  items: number,
  slots: number,
  batch: number,
  random: () => number,
): StartWave[] {
  const waves: StartWave[] = [];
  while (waves.length < WARM_WAVES) {
    const order = shuffled(items, random);
    const wave = Array.from({ length: slots }, (_, slot) => takeAround(order, slot * batch, batch));
    waves.push(
      wave,
      wave.toReversed().map((group) => group.toReversed()),
    );
  }
  return waves.slice(0, WARM_WAVES);
}

/** `count` entries from `from` on, beginning again at the end. */
function takeAround(order: readonly number[], from: number, count: number): StartGroup {
  return Array.from({ length: count }, (_, at) => order[(from + at) % order.length] ?? 0);
}
