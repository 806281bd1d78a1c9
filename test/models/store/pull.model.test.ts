import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { FileBytes } from '../../../src/models/files/byte-source.ts';
import { readWhisperFile } from '../../../src/models/files/ggml-whisper-file.ts';
import type { InstalledModel } from '../../../src/models/installed/installed-models.ts';
import { ModelStore } from '../../../src/models/store/model-store.ts';
import { type GgufFileContents, readGguf } from '../files/read-gguf.ts';

/**
 * SHA-256 of each 16 kHz tensor of the official release, by the names of its Safetensors file: in PyPI's silero-vad 6.2.3,
 * silero_vad/data/silero_vad.jit is a zip whose entries data/2 … data/16 are these tensors, in this order.
 */
const sileroHashes = JSON.parse(
  await readFile(new URL('../fixtures/silero-vad-16khz.sha256.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, string>>;

/** What can be had without Hugging Face. */
const FROM_REGISTRIES = ['moonshine-tiny', 'silero-vad', 'whisper-tiny.en'];

const PULL_TIMEOUT_MS = 300_000;
const UNREACHABLE = ['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'ETIMEDOUT', 'ENETUNREACH'];

let directory: string;
let unreachable: string | undefined;
const models = new Map<string, InstalledModel>();

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'wavepool-pull-'));
  const store = new ModelStore({ directory, environment: process.env });
  try {
    for (const id of FROM_REGISTRIES) models.set(id, await store.pull(id));
  } catch (thrown) {
    if (!isUnreachable(thrown)) throw thrown;
    unreachable = String(thrown);
    process.stderr.write(`\nSKIPPED: a registry cannot be reached: ${unreachable}\n`);
  }
}, PULL_TIMEOUT_MS);
afterAll(() => rm(directory, { recursive: true, force: true }));

function isUnreachable(thrown: unknown): boolean {
  // pip tells its reasons in words.
  if (thrown instanceof WavepoolError && /pip could not get it/.test(thrown.message)) return true;
  if (!(thrown instanceof WavepoolError) || !(thrown.cause instanceof Error)) return false;
  return 'code' in thrown.cause && UNREACHABLE.includes(String(thrown.cause.code));
}

async function open(context: TestContext, id: string): Promise<GgufFileContents> {
  const model = models.get(id);
  if (model === undefined) return context.skip(unreachable ?? `${id} is not in the catalogue`);
  return readGguf(await readFile(model.path));
}

/** The first values of an i8 tensor. */
const integers = (gguf: GgufFileContents, name: string, count: number) =>
  [...(gguf.tensors.get(name)?.data.subarray(0, count) ?? [])].map((byte) => (byte << 24) >> 24);

const scalar = (gguf: GgufFileContents, name: string) => gguf.tensors.get(name)?.data.readFloatLE();

test('every model of a registry is converted to the same bytes on every machine', (context) => {
  if (unreachable !== undefined) context.skip(unreachable);
  expect([...models].map(([id, { record }]) => [id, record.weights.sha256])).toEqual([
    ['moonshine-tiny', 'd7418c95d6c37d6c11b6b064dae6638b7e89556b778093f330ccbdc8292c2d51'],
    ['silero-vad', '2cec10943b0e3365959ad2029f0b058a4321e826778b5c6f066417e4eb62ba79'],
    ['whisper-tiny.en', '8d46a82cb0c98da18991f06596f0baa426ac5684af8a4c8a7564e51d7ac026f6'],
  ]);
});

test('every license text is recorded', (context) => {
  if (unreachable !== undefined) context.skip(unreachable);
  const sources = [...models.values()].flatMap(({ record }) => record.sources);
  expect(sources.map(({ licenseText }) => /Copyright .*/.exec(licenseText)?.[0])).toEqual([
    'Copyright (c) 2025 Useful Sensors, Inc.',
    'Copyright 2023 belladore.ai',
    'Copyright (c) 2020-present Silero Team',
    'Copyright (c) 2022 OpenAI',
  ]);
});

test('Moonshine has its dimensions, tokens and tensors', async (context) => {
  const gguf = await open(context, 'moonshine-tiny');
  const { 'tokenizer.ggml.tokens': tokens, ...scalars } = Object.fromEntries(gguf.metadata);
  expect(scalars).toEqual({
    'general.architecture': 'moonshine',
    'general.name': 'moonshine-tiny',
    'general.license': 'MIT',
    'general.source': '@moonshine-ai/moonshine-js@0.1.29, llama-tokenizer-js@1.2.2',
    'moonshine.embedding_length': 288,
    'moonshine.feed_forward_length': 1152,
    'moonshine.block_count.encoder': 6,
    'moonshine.block_count.decoder': 6,
    'moonshine.attention.head_count': 8,
    'moonshine.rope.dimension_count': 32,
    'moonshine.vocab_size': 32768,
  });
  expect(tokens).toHaveLength(32_768);
  expect(tokens).toMatchObject({ 1: '<s>', 2: '</s>', 3: '<0x00>', 258: '<0xFF>', 940: '▁He' });
  // 160 weights, 100 of them integer matrices with a scale and an offset each.
  expect(gguf.tensors.size).toBe(360);
  expect(gguf.tensors.get('encoder.conv1.weight')?.dimensions).toEqual([127, 1, 288]);
  expect(gguf.tensors.get('decoder.blocks.5.mlp.up.weight')?.dimensions).toEqual([288, 2304]);
  expect(gguf.tensors.get('decoder.token_embedding.weight')?.dimensions).toEqual([288, 32768]);
});

/** Expected values read from the ONNX files with onnx and numpy, layers found by node name. */
test("Moonshine's weights are the export's integers with their scales and offsets", async (context) => {
  const gguf = await open(context, 'moonshine-tiny');
  expect(integers(gguf, 'encoder.conv1.weight', 4)).toEqual([43, 34, -53, -87]);
  expect(scalar(gguf, 'encoder.conv1.weight.scale')).toBe(0.0133475037291646);
  expect(scalar(gguf, 'encoder.conv1.weight.offset')).toBe(0.0266950074583292);

  const query = 'decoder.blocks.3.self_attn.q.weight';
  expect(integers(gguf, query, 4)).toEqual([0, -3, -14, 2]);
  expect(integers(gguf, query, 288 * 288).at(-1)).toBe(23);
  expect(integers(gguf, query, 288).reduce((sum, value) => sum + value)).toBe(286);
  expect(scalar(gguf, `${query}.scale`)).toBe(0.005715731531381607);
  expect(scalar(gguf, `${query}.offset`)).toBe(-0.005715731531381607);

  // A projection that only the branch without a cache contains.
  expect(integers(gguf, 'decoder.blocks.5.cross_attn.k.weight', 4)).toEqual([-1, -8, 8, 19]);
  expect(scalar(gguf, 'decoder.norm.weight')).toBe(1.6196444034576416);
});

test('Silero VAD has the bits of the official 16 kHz release', async (context) => {
  const gguf = await open(context, 'silero-vad');
  expect(Object.fromEntries(gguf.metadata)).toEqual({
    'general.architecture': 'silero-vad',
    'general.name': 'silero-vad',
    'general.license': 'MIT',
    'general.source': '@ricky0123/vad-web@0.0.31',
    'silero.sample_rate': 16_000,
    'silero.window': 512,
    'silero.context': 64,
  });
  const hashes = [...gguf.tensors].map(([name, { data }]) => [
    name,
    createHash('sha256').update(data).digest('hex'),
  ]);
  expect(Object.fromEntries(hashes)).toEqual(sileroHashes);
  expect(gguf.tensors.get('conv1.weight')?.dimensions).toEqual([3, 129, 128]);
});

test('Whisper has its dimensions, tokens and filters, and its quantized form the size of the published one', {
  timeout: PULL_TIMEOUT_MS,
}, async (context) => {
  const whisper = models.get('whisper-tiny.en');
  if (whisper === undefined) return context.skip(unreachable ?? 'not pulled');
  await using file = await FileBytes.open(whisper.path);
  const { header, tensors } = await readWhisperFile(file);
  expect(header.dimensions).toMatchObject({ vocabulary: 51_864, audioState: 384, textLayers: 4 });
  expect(tensors).toHaveLength(167);
  const token = (id: number) => Buffer.from(header.tokens[id] ?? []).toString();
  expect([token(0), token(50_255), token(50_256)]).toEqual(['!', ' gazed', '<|endoftext|>']);
  const store = new ModelStore({ directory, environment: process.env });
  const { record } = await store.pullQuantized('whisper-tiny.en', 'q5_1');
  // The same as whisper.cpp's quantize makes of the same file.
  expect(record.weights).toEqual({
    bytes: 32_166_155,
    sha256: '742dd7e53273353ed68ed70e7df1dae0e60399091e8cba1c3b3be5755d0e4995',
  });
});
