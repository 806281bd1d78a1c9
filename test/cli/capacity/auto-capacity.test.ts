/** When `auto` measures, and when it uses what is known. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { chooseCapacities, chooseCapacity } from '../../../src/cli/capacity/auto-capacity.ts';
import type { CapacityOptions } from '../../../src/cli/capacity/capacity-options.ts';
import { readConfig } from '../../../src/core/config.ts';
import { catalogueEntry } from '../../../src/models/catalogue/catalogue.ts';
import type { InstalledModel } from '../../../src/models/installed/installed-models.ts';

const LEFT_OUT: CapacityOptions = { slots: 'auto', batch: 'auto', threads: 1, workers: 'auto' };
const TYPED = { ...LEFT_OUT, tuning: { wanted: true, again: false, threadsTyped: false } };
const RETUNE = { ...LEFT_OUT, tuning: { wanted: true, again: true, threadsTyped: false } };

function installed(id: string, sha256 = 'a'.repeat(64)): InstalledModel {
  const entry = catalogueEntry(id);
  const { family, license } = entry;
  const weights = { bytes: 1, sha256 };
  const made = { converterVersion: 1, sources: [], installedAt: '2026-01-01T00:00:00.000Z' };
  return { entry, path: '/nowhere', record: { id, family, license, weights, ...made } };
}

/** Measures a batch of 4 as the fastest, and counts how often it was asked to. */
async function machine() {
  const modelsDir = await mkdtemp(path.join(tmpdir(), 'wavepool-tuning-'));
  onTestFinished(() => rm(modelsDir, { recursive: true }));
  await mkdir(path.join(modelsDir, 'moonshine-tiny'));
  const opened: string[] = [];
  let build = 'b1';
  const output = new PassThrough();
  output.resume();
  const config = { ...readConfig({ HOME: '/nowhere' }), modelsDir };
  const services = {
    config,
    context: {
      stdout: output,
      stderr: output,
      config,
      environment: {},
      onInterrupt: () => () => undefined,
      exitNow: () => undefined,
      exitCode: 0 as const,
    },
    clock: { now: () => 0 },
    build: () => build,
    open: (model: InstalledModel) => () => {
      opened.push(model.entry.id);
      return Promise.resolve({
        measure: (batch: number) => Promise.resolve(batch === 4 ? 100 : 10),
        [Symbol.asyncDispose]: () => Promise.resolve(),
      });
    },
  };
  const rebuild = () => {
    build = 'b2';
  };
  return { services, opened, rebuild, modelsDir };
}

test('left out, nothing is measured, and the choice is the same every time', async () => {
  const { services, opened } = await machine();
  const model = installed('moonshine-tiny');
  const first = await chooseCapacity(LEFT_OUT, model, services);
  expect(first).toMatchObject({ slots: 1, batch: 8, threads: 1 });
  expect(await chooseCapacity(LEFT_OUT, model, services)).toEqual(first);
  expect(opened).toEqual([]);
});

test('typed, it measures once; later commands use what was found', async () => {
  const { services, opened } = await machine();
  const model = installed('moonshine-tiny');
  expect(await chooseCapacity(TYPED, model, services)).toMatchObject({ slots: 1, batch: 4 });
  const measurements = opened.length;
  expect(measurements).toBeGreaterThan(0);
  expect(await chooseCapacity(TYPED, model, services)).toMatchObject({ batch: 4 });
  expect(await chooseCapacity(LEFT_OUT, model, services)).toMatchObject({ batch: 4 });
  expect(opened).toHaveLength(measurements);
  await chooseCapacity(RETUNE, model, services);
  expect(opened).toHaveLength(2 * measurements);
});

test('other weights and another build are measured anew', async () => {
  const { services, opened, rebuild } = await machine();
  await chooseCapacity(TYPED, installed('moonshine-tiny'), services);
  const once = opened.length;
  await chooseCapacity(TYPED, installed('moonshine-tiny', 'c'.repeat(64)), services);
  expect(opened).toHaveLength(2 * once);
  rebuild();
  const model = installed('moonshine-tiny');
  expect(await chooseCapacity(LEFT_OUT, model, services)).toMatchObject({ batch: 8 });
  await chooseCapacity(TYPED, model, services);
  expect(opened).toHaveLength(3 * once);
});

test('a damaged file of choices is none', async () => {
  const { services, modelsDir } = await machine();
  await writeFile(path.join(modelsDir, 'moonshine-tiny', 'tuning.json'), '[{');
  const model = installed('moonshine-tiny');
  expect(await chooseCapacity(LEFT_OUT, model, services)).toMatchObject({ batch: 8 });
  expect(await chooseCapacity(TYPED, model, services)).toMatchObject({ batch: 4 });
});

test('each model is chosen for by itself, with the processes of the first', async () => {
  const { services, opened } = await machine();
  const models = [installed('moonshine-tiny'), installed('whisper-tiny.en')];
  const [first, second] = await chooseCapacities(TYPED, models, services);
  expect(new Set(opened)).toEqual(new Set(['moonshine-tiny', 'whisper-tiny.en']));
  expect(second?.workers).toBe(first?.workers);
  expect(second).toMatchObject({ slots: 1, batch: 4 });
});

test('a detector is never measured', async () => {
  const { services, opened } = await machine();
  expect(await chooseCapacity(TYPED, installed('silero-vad'), services)).toMatchObject({
    slots: 1,
  });
  expect(opened).toEqual([]);
});
