import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Manifest } from '../../src/bulk/manifest.ts';
import type { DoneRecord, FailedRecord } from '../../src/core/files/run-manifest.ts';

let folder = '';
let file = '';
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'wavepool-manifest-'));
  file = path.join(folder, 'inputs.jsonl');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const identity = { bytes: 10, mtimeMs: 1.5, optionsKey: 'o', jobId: 'j' };

function done(inputPath: string, outputPath = `${inputPath}.txt`): DoneRecord {
  return {
    state: 'done',
    path: inputPath,
    ...identity,
    resultKey: 'r',
    audioSeconds: 2,
    noSpeech: false,
    outputs: [{ format: 'txt', path: outputPath, bytes: 3 }],
  };
}

function failed(inputPath: string): FailedRecord {
  return { state: 'failed', path: inputPath, ...identity, code: 'INPUT_EMPTY', message: 'empty' };
}

async function withManifest<T>(use: (manifest: Manifest) => Promise<T>): Promise<T> {
  const manifest = await Manifest.open(folder);
  try {
    return await use(manifest);
  } finally {
    await manifest.close();
  }
}

function lines(): string[] {
  return readFileSync(file, 'utf8').split('\n').slice(0, -1);
}

test('records are found again by this run and by the next one', async () => {
  const long = done(`${'я'.repeat(3000)}.wav`);
  await withManifest(async (manifest) => {
    await Promise.all([done('a.wav'), failed('b.wav'), long].map((one) => manifest.append(one)));
    expect(await manifest.find('a.wav')).toEqual(done('a.wav'));
  });
  await withManifest(async (manifest) => {
    expect(await manifest.find('a.wav')).toEqual(done('a.wav'));
    expect(await manifest.find('b.wav')).toEqual(failed('b.wav'));
    expect(await manifest.find(long.path)).toEqual(long);
    expect(await manifest.find('c.wav')).toBeUndefined();
  });
});

test('the last record of a path counts, and opening drops the others', async () => {
  await withManifest(async (manifest) => {
    await manifest.append(failed('a.wav'));
    await manifest.append(done('b.wav'));
    await manifest.append(done('a.wav'));
  });
  expect(lines().length).toBe(3);
  await withManifest(async (manifest) => {
    expect(manifest.size).toBe(2);
    expect(await manifest.find('a.wav')).toEqual(done('a.wav'));
    expect(await manifest.find('b.wav')).toEqual(done('b.wav'));
  });
  expect(lines().length).toBe(2);
});

test('a torn last line and a damaged one in the middle cost only themselves', async () => {
  await withManifest((manifest) => manifest.append(done('a.wav')));
  const whole = readFileSync(file, 'utf8');
  writeFileSync(file, `${whole}{"state":"do\n${JSON.stringify(done('b.wav'))}\n`);
  appendFileSync(file, JSON.stringify(done('c.wav')).slice(0, 40));
  await withManifest(async (manifest) => {
    expect(await manifest.find('a.wav')).toEqual(done('a.wav'));
    expect(await manifest.find('b.wav')).toEqual(done('b.wav'));
    expect(await manifest.find('c.wav')).toBeUndefined();
    await manifest.append(done('d.wav'));
  });
  expect(lines().map((line) => JSON.parse(line).path)).toEqual(['a.wav', 'b.wav', 'd.wav']);
});

test('an output belongs to the input that wrote it last', async () => {
  await withManifest(async (manifest) => {
    await manifest.append(done('x/a.wav', 'a.txt'));
    expect(manifest.owns('x/a.wav', 'a.txt')).toBe(true);
    await manifest.append(done('y/a.wav', 'a.txt'));
  });
  await withManifest((manifest) => {
    expect(manifest.owns('x/a.wav', 'a.txt')).toBe(false);
    expect(manifest.owns('y/a.wav', 'a.txt')).toBe(true);
    return Promise.resolve();
  });
});

test('many records appended at once are all kept, in order', async () => {
  const records = Array.from({ length: 500 }, (_, at) => done(`${at}.wav`));
  await withManifest(async (manifest) => {
    await Promise.all(records.map((record) => manifest.append(record)));
  });
  expect(lines().map((line) => JSON.parse(line).path)).toEqual(records.map((one) => one.path));
});
