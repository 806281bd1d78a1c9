import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { sha256OfFile } from '../../../src/core/files/file-hash.ts';
import { CATALOGUE } from '../../../src/models/catalogue/catalogue.ts';
import {
  type CatalogueEntry,
  converterVersion,
} from '../../../src/models/catalogue/catalogue-entry.ts';
import { WHISPER_FILE } from '../../../src/models/convert/ready-file.ts';
import { SILERO_TENSORS } from '../../../src/models/convert/silero-vad.ts';
import { writeGguf } from '../../../src/models/files/gguf-writer.ts';
import { type ImportOptions, ModelStore } from '../../../src/models/store/model-store.ts';
import { SMALL, writeCTranslate2Folder, writeSmallWhisper } from '../convert/whisper-bytes.ts';
import { startFileServer } from '../download/file-server.ts';

// A checkpoint has 6 MB at least, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000 });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-import-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const storeOf = (catalogue: readonly CatalogueEntry[] = CATALOGUE) =>
  new ModelStore({ directory: path.join(folder, 'models'), environment: {}, catalogue });
const given = (name: string) => path.join(folder, 'given', name);
const take = (name: string, options: ImportOptions = {}) => storeOf().import(given(name), options);

/** Silero's tensors with numbers of no meaning. */
const sileroTensors = () =>
  SILERO_TENSORS.map(({ name, shape }) => {
    const count = shape.reduce((product, dim) => product * dim, 1);
    return { name, shape, type: 'f32', data: new Float32Array(count).fill(0.5) } as const;
  });

async function writeSileroGguf(name: string, architecture = 'silero-vad') {
  await mkdir(given(''), { recursive: true });
  const metadata = new Map([
    ['general.architecture', { type: 'string', value: architecture } as const],
  ]);
  await writeGguf(given(name), { metadata, tensors: sileroTensors() });
}

async function writeSileroSafetensors(name: string, change = (header: object) => header) {
  await mkdir(given(''), { recursive: true });
  let offset = 0;
  const entries = sileroTensors().map(({ name: tensor, shape, data }) => {
    const offsets = [offset, offset + data.byteLength];
    offset += data.byteLength;
    return [tensor, { dtype: 'F32', shape, data_offsets: offsets }] as const;
  });
  const header = Buffer.from(JSON.stringify(change(Object.fromEntries(entries))));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  await writeFile(given(name), Buffer.concat([length, header, Buffer.alloc(offset)]));
}

test('a ggml Whisper file is taken as it is, and used like any other model', async () => {
  await writeSmallWhisper(given('ggml-Clinic v2.bin'));
  const model = await take('ggml-Clinic v2.bin');
  expect(model.entry).toEqual({
    id: 'whisper-clinic-v2',
    family: 'whisper',
    task: 'asr',
    languages: ['en'],
    license: 'unknown',
    description: 'Whisper, English, imported',
  });
  expect(path.basename(model.path)).toBe('model.bin');
  expect(await sha256OfFile(model.path)).toBe(await sha256OfFile(given('ggml-Clinic v2.bin')));
  expect(model.record.imported?.from).toBe(given('ggml-Clinic v2.bin'));
  const later = storeOf();
  expect(await later.locate('whisper-clinic-v2')).toEqual(model);
  expect(await later.pull('whisper-clinic-v2')).toEqual(model);
  expect((await later.list()).at(-1)).toMatchObject({ entry: model.entry, state: 'installed' });
});

test('the same import again changes nothing, another file under its id is refused', async () => {
  await writeSmallWhisper(given('a.bin'));
  const first = await take('a.bin', { id: 'mine' });
  expect((await take('a.bin', { id: 'mine' })).record.weights).toEqual(first.record.weights);
  await writeSmallWhisper(given('b.bin'), { seed: 9 });
  await expect(take('b.bin', { id: 'mine' })).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    message: expect.stringContaining('choose an --id, or remove it first'),
  });
});

test('an imported model is quantized on the way in, or later', async () => {
  await writeSmallWhisper(given('a.bin'));
  const now = await take('a.bin', { id: 'mine', quantize: 'q8_0' });
  expect(now.record).toMatchObject({ id: 'mine-q8_0', quantized: { type: 'q8_0', base: 'mine' } });
  await take('a.bin', { id: 'mine' });
  const later = await storeOf().pullQuantized('mine', 'q5_1');
  expect(later.entry).toMatchObject({ id: 'mine-q5_1', family: 'whisper' });
  expect((await storeOf().locate('mine-q5_1'))?.record.weights).toEqual(later.record.weights);
});

test('a CTranslate2 folder of Whisper is converted', async () => {
  await writeCTranslate2Folder(given('faster-whisper-mine'));
  const model = await take('faster-whisper-mine');
  expect(model.entry).toMatchObject({ id: 'faster-whisper-mine', family: 'whisper' });
  const alone = storeOf().import(given('faster-whisper-mine/model.bin'), { id: 'alone' });
  await expect(alone).rejects.toMatchObject({
    code: 'MODEL_FILE_INVALID',
    message: expect.stringContaining('import its folder'),
  });
});

test('Silero VAD comes from Safetensors and from GGUF, with the same weights', async () => {
  await writeSileroGguf('other.gguf');
  await writeSileroSafetensors('vad.safetensors');
  const model = await take('other.gguf', { id: 'other-vad' });
  expect(model.entry).toMatchObject({ family: 'silero-vad', task: 'vad', languages: [] });
  expect(path.basename(model.path)).toBe('model.gguf');
  const converted = await take('vad.safetensors', { id: 'vad-2' });
  expect((await readFile(converted.path)).subarray(0, 4).toString()).toBe('GGUF');
});

test('only Whisper is quantized, and the refusal says why', async () => {
  await writeSileroGguf('other.gguf');
  await expect(take('other.gguf', { quantize: 'q8_0' })).rejects.toMatchObject({
    code: 'OPTION_UNSUPPORTED',
    message: expect.stringContaining('only Whisper'),
  });
  await expect(storeOf().pullQuantized('moonshine-tiny', 'q8_0')).rejects.toMatchObject({
    code: 'OPTION_UNSUPPORTED',
  });
  expect(await readdir(path.join(folder, 'models'))).toEqual([]);
});

test('the weights of a catalogue model get its id, anything else may not have it', async () => {
  await writeSmallWhisper(given('ggml-tiny.en.bin'));
  await expect(take('ggml-tiny.en.bin')).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    message: expect.stringMatching(/whisper-tiny.en is a model of the catalogue.*--id/),
  });
  const { size } = { size: (await readFile(given('ggml-tiny.en.bin'))).length };
  const pins = { bytes: size, sha256: await sha256OfFile(given('ggml-tiny.en.bin')) };
  const entry: CatalogueEntry = {
    id: 'whisper-tiny.en',
    family: 'whisper',
    task: 'asr',
    languages: ['en'],
    license: 'MIT',
    description: 'as published',
    origins: [
      {
        kind: 'files',
        converter: converterVersion('whisper-ggml'),
        sources: [
          {
            kind: 'huggingface',
            repository: 'owner/models',
            revision: 'abc',
            license: 'MIT',
            copyright: 'Copyright (c) Somebody',
            files: [{ name: WHISPER_FILE, path: 'ggml-tiny.en.bin', ...pins }],
          },
        ],
      },
    ],
  };
  const model = await storeOf([entry]).import(given('ggml-tiny.en.bin'));
  expect(model.record.imported).toBeUndefined();
  expect(model.record.sources[0]?.licenseText).toBe('Copyright (c) Somebody');
  expect((await storeOf([entry]).list()).map(({ state }) => state)).toEqual(['installed']);
});

test('an address is imported, with the page of a file standing for the file', async () => {
  await writeSmallWhisper(given('ggml-far.bin'));
  await using server = await startFileServer();
  server.put('/owner/models/resolve/main/ggml-far.bin', await readFile(given('ggml-far.bin')));
  const model = await storeOf().import(
    `${server.url}/owner/models/blob/main/ggml-far.bin?x=secret`,
  );
  expect(model.entry.id).toBe('whisper-far');
  expect(model.record.imported?.from).toBe(`${server.url}/owner/models/blob/main/ggml-far.bin`);
  await expect(storeOf().import(`${server.url}/none.bin`)).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringMatching(/none.bin: there is no such file/),
  });
  await expect(storeOf().import('ftp://host/file.bin')).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
  });
});

for (const [what, file, prepare] of [
  ['an empty file', 'empty.bin', (bytes: Buffer) => bytes.subarray(0, 0)],
  ['half a file', 'half.bin', (bytes: Buffer) => bytes.subarray(0, bytes.length >> 1)],
  ['a file that goes on', 'long.bin', (bytes: Buffer) => Buffer.concat([bytes, bytes])],
  ['text', 'text.bin', () => Buffer.from('not a model')],
] as const) {
  test(`${what} is refused, and nothing is installed`, async () => {
    await writeSmallWhisper(given('whole.bin'));
    await writeFile(given(file), prepare(await readFile(given('whole.bin'))));
    await expect(take(file)).rejects.toMatchObject({ code: 'MODEL_FILE_INVALID' });
    expect(await readdir(path.join(folder, 'models'))).toEqual([]);
  });
}

test('a GGUF file of a family that does not run here is refused by name', async () => {
  await writeSileroGguf('llama.gguf', 'llama');
  await expect(take('llama.gguf')).rejects.toMatchObject({
    code: 'MODEL_FILE_INVALID',
    message: expect.stringContaining('is for "llama"'),
  });
});

test('a file that native code refuses is not installed', async () => {
  await writeSileroGguf('other.gguf');
  const store = new ModelStore({
    directory: path.join(folder, 'models'),
    environment: {},
    inspect: () => Promise.reject(new Error('refused')),
  });
  await expect(store.import(given('other.gguf'), { id: 'other' })).rejects.toThrow('refused');
  expect(await readdir(path.join(folder, 'models'))).toEqual([]);
});

test('what is not there, and a name that no model can have, are told', async () => {
  await expect(take('missing.bin')).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
  await writeSmallWhisper(given('a.bin'));
  await expect(take('a.bin', { id: '../evil' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
});

test('a removed model is gone with its record, and only if it was there', async () => {
  await writeSmallWhisper(given('a.bin'));
  await take('a.bin', { id: 'mine' });
  const evidence = path.join(folder, 'models', 'mine', 'evidence');
  await mkdir(evidence);
  await writeFile(path.join(evidence, 'batch.json'), '{}');
  expect((await storeOf().remove('mine')).id).toBe('mine');
  expect(await readdir(path.join(folder, 'models', 'mine'))).toEqual(['evidence']);
  expect(await storeOf().list()).toHaveLength(CATALOGUE.length);
  for (const id of ['mine', 'moonshine-tiny', '..']) {
    await expect(storeOf().remove(id)).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' });
  }
});

test('the layout of a larger Whisper is read by its own dimensions', async () => {
  const dimensions = { ...SMALL, vocabulary: 51_866, mels: 128, audioLayers: 2 };
  await writeSmallWhisper(given('ggml-many.bin'), { dimensions });
  expect((await take('ggml-many.bin')).entry.languages).toEqual(['mul']);
});
