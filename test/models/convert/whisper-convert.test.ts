import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { melFilters } from '../../../src/models/convert/mel-filters.ts';
import { quantize } from '../../../src/models/convert/quantize.ts';
import { quantizeWhisper } from '../../../src/models/convert/quantize-whisper.ts';
import { whisperConverter } from '../../../src/models/convert/whisper.ts';
import { whisperTokens } from '../../../src/models/convert/whisper-tokens.ts';
import { FileBytes } from '../../../src/models/files/byte-source.ts';
import { readWhisperFile } from '../../../src/models/files/ggml-whisper-file.ts';
import { halfValues } from '../../../src/models/files/half-float.ts';
import {
  cTranslate2Bytes,
  SMALL,
  tokenizerJson,
  tokenTexts,
  writeCTranslate2Folder,
  writeSmallWhisper,
} from './whisper-bytes.ts';

// A checkpoint has 6 MB at least, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000 });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-whisper-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const input = () => ({
  id: 'small',
  license: 'MIT',
  source: 'test',
  locate: (name: string) => path.join(folder, name),
  read: (name: string) => readFile(path.join(folder, name)),
});

/** SHA-256 of mel_80 and mel_128 in whisper/assets/mel_filters.npz of PyPI's openai-whisper 20250625, as f32. */
for (const [mels, sha256] of [
  [80, '85818f156f7e189453901a515e4726d270d307f976e161cf9403e8caab405498'],
  [128, 'e399c2d72d2f7375e503c296d8453cefcc0c1e47a9c1a0a09e0d70f59c820f20'],
] as const) {
  test(`the ${mels} mel filters are those of OpenAI's Whisper, to the bit`, () => {
    const bytes = new Uint8Array(melFilters(mels).buffer);
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256);
  });
}

test('a CTranslate2 model becomes a ggml file with the same weights under other names', async () => {
  await writeCTranslate2Folder(folder);
  const target = path.join(folder, 'out.bin');
  const written = await whisperConverter.write(input(), target);
  await using file = await FileBytes.open(target);
  const { header, tensors } = await readWhisperFile(file);
  expect(written.bytes).toBe(file.bytes);
  expect(header.dimensions).toEqual(SMALL);
  expect(Buffer.from(header.tokens[7] ?? []).toString()).toBe(' ');
  expect(Buffer.from(header.tokens[300] ?? []).toString()).toBe('300');

  const source = cTranslate2Bytes();
  const data = async (name: string) => {
    const tensor = tensors.find((each) => each.name === name);
    return tensor === undefined ? Buffer.alloc(0) : file.read(tensor.offset, tensor.bytes);
  };
  // The joined matrix of query, key and value lies in one piece in the source.
  const attention = await Promise.all(
    ['query', 'key', 'value'].map((part) => data(`decoder.blocks.0.attn.${part}.weight`)),
  );
  expect(source.includes(Buffer.concat(attention))).toBe(true);
  const cross = await Promise.all(
    ['key', 'value'].map((part) => data(`decoder.blocks.0.cross_attn.${part}.weight`)),
  );
  expect(source.includes(Buffer.concat(cross))).toBe(true);
  expect(source.includes(await data('decoder.token_embedding.weight'))).toBe(true);
  const bias = await data('encoder.blocks.0.mlp.2.bias');
  const values = halfValues();
  const asHalves = Uint16Array.from({ length: 64 }, (_, at) =>
    values.indexOf(bias.readFloatLE(4 * at)),
  );
  expect(source.includes(Buffer.from(asHalves.buffer))).toBe(true);
});

for (const [what, change, message] of [
  ['of another shape', 'decoder/layer_0/ffn/linear_0/weight', /linear_0\/weight is \[64,256\]/],
  ['that is missing', 'encoder/conv2/bias', /has no encoder\/conv2\/bias/],
] as const) {
  test(`a CTranslate2 model with a weight ${what} is refused by name`, async () => {
    const bytes = cTranslate2Bytes((variables) =>
      variables.flatMap(([name, shape, type, data]) => {
        if (name !== change) return [[name, shape, type, data] as const];
        return what === 'that is missing' ? [] : [[name, shape.toReversed(), type, data] as const];
      }),
    );
    await writeCTranslate2Folder(folder, bytes);
    await expect(whisperConverter.write(input(), path.join(folder, 'out'))).rejects.toMatchObject({
      code: 'MODEL_FILE_INVALID',
      message: expect.stringMatching(message),
    });
  });
}

test('8-bit CTranslate2 weights are refused with what to do', async () => {
  const bytes = cTranslate2Bytes((variables) =>
    variables.map(([name, shape, type, data]) =>
      name === 'encoder/conv1/weight'
        ? [name, shape, 1, data.subarray(data.length / 2)]
        : [name, shape, type, data],
    ),
  );
  await writeCTranslate2Folder(folder, bytes);
  await expect(whisperConverter.write(input(), path.join(folder, 'out'))).rejects.toMatchObject({
    code: 'MODEL_FILE_INVALID',
    message: expect.stringContaining('convert a model of float16 weights'),
  });
});

for (const [what, json] of [
  ['is no JSON', '{'],
  ['without a vocabulary', '{}'],
  ['without one of the tokens', tokenizerJson(tokenTexts().slice(0, -1))],
  ['that is no byte-level text', JSON.stringify({ model: { vocab: { '\u4e00': 0 } } })],
] as const) {
  test(`a tokenizer ${what} is refused`, () => {
    expect(() => whisperTokens(Buffer.from(json), 'tokenizer.json')).toThrow(
      expect.objectContaining({ code: 'MODEL_FILE_INVALID' }),
    );
  });
}

test('quantizing changes the matrices and nothing else', async () => {
  const full = path.join(folder, 'full.bin');
  await writeSmallWhisper(full);
  await quantizeWhisper(full, path.join(folder, 'q5.bin'), 'q5_1');
  await using before = await FileBytes.open(full);
  await using after = await FileBytes.open(path.join(folder, 'q5.bin'));
  const [old, made] = [await readWhisperFile(before), await readWhisperFile(after)];
  expect(made.header).toEqual({ ...old.header, fileType: 2009 });
  expect(made.tensors.map(({ name }) => name)).toEqual(old.tensors.map(({ name }) => name));
  for (const [index, tensor] of made.tensors.entries()) {
    const source = old.tensors[index];
    if (source === undefined) throw new Error('one tensor for each');
    const bytes = await before.read(source.offset, source.bytes);
    const found = await after.read(tensor.offset, tensor.bytes);
    expect(tensor.type === 7).toBe(tensor.kind === 'matrix');
    if (tensor.kind !== 'matrix') expect(found.equals(bytes)).toBe(true);
    if (tensor.name !== 'encoder.blocks.0.attn.out.weight') continue;
    const values = Float32Array.from(
      { length: bytes.length / 2 },
      (_, at) => halfValues()[bytes.readUInt16LE(2 * at)] ?? 0,
    );
    expect(found.equals(quantize(values, 'q5_1'))).toBe(true);
  }
  const again = quantizeWhisper(path.join(folder, 'q5.bin'), path.join(folder, 'twice'), 'q8_0');
  await expect(again).rejects.toMatchObject({ code: 'OPTION_UNSUPPORTED' });
});

test('weights that are no numbers are not quantized', async () => {
  const full = path.join(folder, 'full.bin');
  await writeSmallWhisper(full);
  const bytes = await readFile(full);
  bytes.writeUInt16LE(0x7e_00, bytes.length - 2);
  await writeFile(full, bytes);
  await expect(quantizeWhisper(full, path.join(folder, 'q'), 'q8_0')).rejects.toMatchObject({
    code: 'MODEL_FILE_INVALID',
  });
});
