import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { CatalogueEntry } from '../../../src/models/catalogue/catalogue-entry.ts';
import type { NpmSource } from '../../../src/models/catalogue/source.ts';
import { GGUF_FILE } from '../../../src/models/convert/ready-file.ts';
import type { Download } from '../../../src/models/download/download.ts';
import { writeGguf } from '../../../src/models/files/gguf-writer.ts';
import { ModelStore, type PullProgress } from '../../../src/models/store/model-store.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'wavepool-models-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const source: NpmSource = {
  kind: 'npm',
  name: 'weights',
  version: '1.0.0',
  integrity: 'sha512-x',
  tarballBytes: 100,
  license: 'MIT',
  licenseFile: 'LICENSE',
  files: [
    { name: GGUF_FILE, path: 'weights.bin', bytes: 4, sha256: '' },
    { name: 'LICENSE', path: 'LICENSE', bytes: 3, sha256: '' },
  ],
};

/** A model whose weights are its source file. */
function entryOf(version = 1): CatalogueEntry {
  return {
    id: 'tiny',
    family: 'moonshine',
    task: 'asr',
    languages: ['en'],
    license: 'MIT',
    description: 'a model for tests',
    origins: [{ kind: 'files', sources: [source], converter: { name: 'gguf', version } }],
  };
}

/** A GGUF file with just the tensors by which Moonshine is known. */
async function writeWeights(file: string): Promise<void> {
  const names = ['encoder.conv1', 'encoder.norm', 'decoder.norm', 'decoder.token_embedding'];
  await writeGguf(file, {
    metadata: new Map([['general.architecture', { type: 'string', value: 'moonshine' }]]),
    tensors: names.map((name) => {
      return { name: `${name}.weight`, shape: [4], type: 'i8', data: Int8Array.of(1, 2, 3, 4) };
    }),
  });
}

/** Writes the source files; `before` runs in the middle of it. */
function downloadOf(before: () => unknown = () => {}): Download & { count: number } {
  const download = Object.assign(
    async (...[, folder, options]: Parameters<Download>) => {
      download.count++;
      await mkdir(folder, { recursive: true });
      await writeWeights(path.join(folder, 'weights.bin'));
      options?.onBytes?.(60);
      await before();
      options?.signal?.throwIfAborted();
      await writeFile(path.join(folder, 'LICENSE'), 'MIT');
    },
    { count: 0 },
  );
  return download;
}

/** A promise and what opens it. */
function gate(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((open) => {
    resolve = open;
  });
  return { promise, resolve };
}

const storeOf = (download: Download, version?: number) =>
  new ModelStore({
    directory,
    environment: {},
    catalogue: [entryOf(version)],
    download,
    now: () => new Date('2030-01-02T03:04:05Z'),
  });

test('a pulled model is located with its provenance', async () => {
  const store = storeOf(downloadOf());
  expect(await store.locate('tiny')).toBeUndefined();
  const pulled = await store.pull('tiny');

  expect(pulled.path).toBe(path.join(directory, 'tiny', 'model.gguf'));
  expect(await store.locate('tiny')).toEqual(pulled);
  const bytes = await readFile(pulled.path);
  expect(pulled.record).toEqual({
    id: 'tiny',
    family: 'moonshine',
    converterVersion: 1,
    license: 'MIT',
    installedAt: '2030-01-02T03:04:05.000Z',
    weights: { bytes: bytes.length, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    sources: [
      { package: 'weights@1.0.0', integrity: 'sha512-x', license: 'MIT', licenseText: 'MIT' },
    ],
  });
  expect(await readdir(directory)).toEqual(['tiny']);
});

test('a model that is there is not downloaded again', async () => {
  const download = downloadOf();
  const first = await storeOf(download).pull('tiny');
  expect((await storeOf(download).pull('tiny')).record).toEqual(first.record);
  expect(download.count).toBe(1);
});

test('progress goes from downloading to installed with the bytes of all packages', async () => {
  const seen: PullProgress[] = [];
  await storeOf(downloadOf()).pull('tiny', { onProgress: (progress) => seen.push(progress) });
  expect(seen.map(({ phase, receivedBytes }) => [phase, receivedBytes])).toEqual([
    ['downloading', 0],
    ['downloading', 60],
    ['converting', 100],
    ['installed', 100],
  ]);
  expect(seen.every(({ id, totalBytes }) => id === 'tiny' && totalBytes === 100)).toBe(true);
});

test('two stores that pull at once download once and get the same model', async () => {
  const secondWaits = gate();
  const download = downloadOf(() => secondWaits.promise);
  const started = gate();
  const first = storeOf(download).pull('tiny', {
    onProgress: ({ receivedBytes }) => {
      if (receivedBytes > 0) started.resolve();
    },
  });
  await started.promise;
  const second = storeOf(download).pull('tiny', {
    onProgress: ({ phase }) => {
      if (phase === 'waiting') secondWaits.resolve();
    },
  });
  expect((await second).record).toEqual((await first).record);
  expect(download.count).toBe(1);
});

test('an aborted pull leaves nothing behind and the next one succeeds', async () => {
  const controller = new AbortController();
  const aborted = storeOf(downloadOf(() => controller.abort())).pull('tiny', {
    signal: controller.signal,
  });
  await expect(aborted).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(await readdir(directory)).toEqual([]);
  const store = storeOf(downloadOf());
  await store.pull('tiny');
  expect(await store.locate('tiny')).toBeDefined();
});

test('a waiting pull can be aborted while the other goes on', async () => {
  const release = gate();
  const started = gate();
  const first = storeOf(
    downloadOf(() => {
      started.resolve();
      return release.promise;
    }),
  ).pull('tiny');
  await started.promise;
  const controller = new AbortController();
  const second = storeOf(downloadOf()).pull('tiny', {
    onProgress: () => controller.abort(),
    signal: controller.signal,
  });
  await expect(second).rejects.toMatchObject({ code: 'CANCELLED' });
  release.resolve();
  expect((await first).entry.id).toBe('tiny');
});

test('a pull of a process that died half-way is taken over', async () => {
  const dead = spawnSync(process.execPath, ['--version']).pid;
  const lock = path.join(directory, '.pull-tiny');
  await mkdir(path.join(lock, 'old-token'), { recursive: true });
  await writeFile(path.join(lock, 'old-token', 'model.gguf'), 'half');
  const owner = { token: 'old-token', host: hostname(), pid: dead };
  await writeFile(path.join(lock, 'owner.json'), JSON.stringify(owner));

  await storeOf(downloadOf()).pull('tiny');
  expect(await readdir(directory)).toEqual(['tiny']);
});

test('a pull of another machine without a sign of life is taken over', async () => {
  const lock = path.join(directory, '.pull-tiny');
  await mkdir(lock);
  const owner = { token: 'old-token', host: `not-${hostname()}`, pid: process.pid };
  await writeFile(path.join(lock, 'owner.json'), JSON.stringify(owner));
  const longAgo = new Date(Date.now() - 3_600_000);
  await utimes(lock, longAgo, longAgo);

  await storeOf(downloadOf()).pull('tiny');
  expect(await readdir(directory)).toEqual(['tiny']);
});

test('a pull whose place was taken away starts again instead of installing anything', async () => {
  const lock = path.join(directory, '.pull-tiny');
  const download = downloadOf(async () => {
    if (download.count === 1) await rm(lock, { recursive: true });
  });
  const pulled = await storeOf(download).pull('tiny');
  expect(download.count).toBe(2);
  expect((await readFile(pulled.path)).length).toBe(pulled.record.weights.bytes);
  expect(await readdir(directory)).toEqual(['tiny']);
});

test('a model of another converter version is outdated and made again', async () => {
  await storeOf(downloadOf(), 1).pull('tiny');
  const store = storeOf(downloadOf(), 2);
  expect((await store.list()).map(({ state }) => state)).toEqual(['outdated']);
  expect(await store.locate('tiny')).toBeUndefined();
  const pulled = await store.pull('tiny');
  expect(pulled.record.converterVersion).toBe(2);
  expect((await store.list()).map(({ state }) => state)).toEqual(['installed']);
});

for (const [what, file, text] of [
  ['a record cut short', 'model.json', '{"id":"tiny"'],
  ['a record of another shape', 'model.json', '{"id":"tiny"}'],
  ['weights of another length', 'model.gguf', 'GGUF'],
] as const) {
  test(`a model with ${what} counts as missing and is repaired by a pull`, async () => {
    const store = storeOf(downloadOf());
    const good = await store.pull('tiny');
    await writeFile(path.join(directory, 'tiny', file), text);
    expect((await store.list()).map(({ state }) => state)).toEqual(['missing']);
    expect(await store.pull('tiny')).toEqual(good);
  });
}

test('a folder that cannot be written is a failed download', async () => {
  await writeFile(path.join(directory, 'file'), '');
  const store = new ModelStore({
    directory: path.join(directory, 'file', 'models'),
    environment: {},
    catalogue: [entryOf()],
    download: downloadOf(),
  });
  await expect(store.pull('tiny')).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringContaining('tiny cannot be written to'),
  });
});

test('an unknown model is refused', async () => {
  const store = storeOf(downloadOf());
  await expect(store.pull('huge')).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' });
  await expect(store.locate('huge')).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' });
});
