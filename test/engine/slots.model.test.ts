/** What more slots of the real recognizer change: no word, and memory by what the plan foretells. */
import { fork } from 'node:child_process';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { readConfig } from '../../src/core/config.ts';
import { NativeEngine } from '../../src/engine/native-engine.ts';
import { ModelStore } from '../../src/models/store/model-store.ts';
import { type CompiledProgram, compileProgram } from '../support/compile.ts';
import { SPEECH } from '../support/speech.ts';
import type { SlotsReport, SlotsRequest } from './slots-program.ts';

const MODEL = 'moonshine-tiny';
const BATCH = 8;
const LONGEST_SECONDS = 15;
/** Against hanging, not against slow machines. */
const TIMEOUT_MS = 600_000;

let model: string | undefined;
let program: CompiledProgram;

beforeAll(async () => {
  const store = new ModelStore({ directory: readConfig().modelsDir, environment: process.env });
  model = (await store.locate(MODEL))?.path;
  if (model === undefined) process.stderr.write(`\nNOT TESTED: ${MODEL} is not installed\n`);
  program = await compileProgram(`${import.meta.dirname}/slots-program.ts`);
});
afterAll(() => program[Symbol.asyncDispose]());

/** In a process of its own, which has run nothing else. */
function report(
  context: TestContext,
  slots: number,
  load: Pick<SlotsRequest, 'segmentSeconds' | 'segments' | 'rounds'>,
): Promise<SlotsReport> {
  if (model === undefined) return context.skip(`${MODEL} is not installed`);
  const request: SlotsRequest = {
    model,
    slots,
    batch: BATCH,
    maxSegmentSeconds: LONGEST_SECONDS,
    clips: SPEECH.map(({ path }) => path),
    ...load,
  };
  return new Promise((resolve, reject) => {
    const child = fork(program.path);
    child.once('message', (message) => resolve(message as SlotsReport)); // what the program sends
    child.once('exit', (code) => reject(new Error(`the program ended with ${code}`)));
    child.send(request);
  });
}

test('two, four and eight slots at once give exactly the texts of one', {
  timeout: TIMEOUT_MS,
}, async (context) => {
  const load = { segmentSeconds: [3, 15, 7, 1, 11, 5], segments: 12, rounds: 1 };
  const [alone = []] = (await report(context, 1, load)).texts;
  expect(alone).toHaveLength(12);
  expect(alone.filter((text) => text.split(' ').length > 1).length).toBeGreaterThan(8);
  for (const slots of [2, 4, 8]) {
    const { texts } = await report(context, slots, load);
    expect(texts).toEqual(Array.from({ length: slots }, () => alone));
  }
});

/** By how much the resident memory of a fresh process grows with so many slots. */
async function addedBytes(context: TestContext, slots: number): Promise<number> {
  const load = { segmentSeconds: [LONGEST_SECONDS], segments: BATCH, rounds: 2 };
  const { before, after } = (await report(context, slots, load)).residentBytes;
  return after - before;
}

/**
 * Resident memory is what the kernel counts, in a fresh process per number of slots, after two batches as large as the
 * sessions allow in every slot, so that no buffer is left untouched. Sessions are above 40 MiB here, while everything that
 * is not in the plan (a thread and its allocator's arena per slot, the garbage collector's mood) is a few MiB: a tenth is
 * both wide enough for it and far too narrow for a second copy of the weights. The median of three measurements, each over
 * three slots, discards a process that was unlucky.
 */
test('an extra slot takes what the plan foretells, no weights, and at most 60 % of the first', {
  timeout: TIMEOUT_MS,
}, async (context) => {
  const measured: { first: number; more: number }[] = [];
  for (let round = 0; round < 3; round += 1) {
    const first = await addedBytes(context, 1);
    measured.push({ first, more: ((await addedBytes(context, 4)) - first) / 3 });
  }
  measured.sort((a, b) => a.more / a.first - b.more / b.first);
  const { first, more } = measured[1] ?? { first: 0, more: 0 };
  const { weightBytes, sessionBytes } = await new NativeEngine().planModel(model ?? '', {
    mode: 'offline',
    threads: 1,
    maxBatch: BATCH,
    maxSegmentSeconds: LONGEST_SECONDS,
  });
  const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  const figures = `first slot ${mebibytes(first)}, each more ${mebibytes(more)} (${Math.round((100 * more) / first)} %), planned ${mebibytes(sessionBytes)} and weights of ${mebibytes(weightBytes)}`;
  await context.annotate(figures);
  expect(Math.abs(more - sessionBytes), figures).toBeLessThanOrEqual(0.1 * sessionBytes);
  // What the first slot has and the others have not: the weights, once.
  expect(first - more, figures).toBeGreaterThanOrEqual(0.8 * weightBytes);
  expect(more / first, figures).toBeLessThanOrEqual(0.6);
});

/** A session reserves memory for its longest segment, so whatever is shorter must fit into that. */
test('a longer segment never needs less memory', async (context) => {
  if (model === undefined) return context.skip(`${MODEL} is not installed`);
  const engine = new NativeEngine();
  let shorter = 0;
  for (let milliseconds = 200; milliseconds <= 20_000; milliseconds += 60) {
    const maxSegmentSeconds = milliseconds / 1000;
    const options = { mode: 'offline', threads: 1, maxBatch: 1, maxSegmentSeconds } as const;
    const { sessionBytes } = await engine.planModel(model, options);
    expect(sessionBytes, `${maxSegmentSeconds} s`).toBeGreaterThanOrEqual(shorter);
    shorter = sessionBytes;
  }
});
