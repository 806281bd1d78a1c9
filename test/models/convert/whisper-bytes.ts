/** Whisper checkpoints that are as small as their layout allows, in the formats that are read. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { F16, F32, tensorBytes } from '../../../src/models/files/ggml-types.ts';
import {
  FILTER_BINS,
  TEXT_TOKENS,
  type WhisperHeader,
  writeWhisperFile,
} from '../../../src/models/files/ggml-whisper-file.ts';
import { halfBits } from '../../../src/models/files/half-float.ts';
import {
  type WhisperDimensions,
  whisperTensors,
} from '../../../src/models/files/whisper-layout.ts';

export const SMALL: WhisperDimensions = {
  vocabulary: 51_864,
  audioContext: 4,
  audioState: 64,
  audioHeads: 2,
  audioLayers: 1,
  textContext: 8,
  textState: 64,
  textHeads: 2,
  textLayers: 1,
  mels: 80,
};

/** Half-precision patterns of numbers between -1 and 1 that look random and are not. */
export function halves(count: number, seed: number): Uint16Array {
  let state = seed >>> 0;
  return Uint16Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return halfBits(state / 2 ** 31 - 1);
  });
}

/** `<|0|>` … in the place of real words: the bytes of token 300 are "300". */
export function tokenTexts(): string[] {
  return Array.from({ length: TEXT_TOKENS }, (_, id) => String(id));
}

/** As tokenizer.json has them; the space, as byte-level BPE writes it, is token 7. */
export function tokenizerJson(texts: readonly string[] = tokenTexts()): string {
  const vocab = Object.fromEntries(texts.map((text, id) => [id === 7 ? 'Ġ' : text, id]));
  return JSON.stringify({ model: { type: 'BPE', vocab } });
}

export interface SmallFileOptions {
  readonly dimensions?: WhisperDimensions;
  readonly seed?: number;
}

/** A ggml file whose weights follow from the seed. */
export async function writeSmallWhisper(file: string, options: SmallFileOptions = {}) {
  const { dimensions = SMALL, seed = 1 } = options;
  const header: WhisperHeader = {
    dimensions,
    fileType: 1,
    filters: new Uint8Array(dimensions.mels * FILTER_BINS * 4),
    tokens: tokenTexts().map((text) => Buffer.from(text)),
  };
  await mkdir(path.dirname(file), { recursive: true });
  const tensors = whisperTensors(dimensions).map((shape, index) => {
    const type = shape.kind === 'vector' ? F32 : F16;
    const bytes = tensorBytes(shape.dimensions, type) ?? 0;
    const data = type === F16 ? halves(bytes / 2, seed + index) : new Float32Array(bytes / 4);
    return { ...shape, type, chunks: [new Uint8Array(data.buffer)] };
  });
  return writeWhisperFile(file, header, tensors);
}

type Variable = readonly [name: string, shape: readonly number[], type: number, data: Uint8Array];

const F16_TYPE = 4;
const I16_TYPE = 2;

/** model.bin of CTranslate2 for `SMALL`, its variables numbered so that each has weights of its own. */
export function cTranslate2Bytes(change: (variables: Variable[]) => Variable[] = (all) => all) {
  const { audioState: width, audioContext, textContext, vocabulary, mels } = SMALL;
  const variables: Variable[] = [];
  const add = (name: string, ...shape: number[]) => {
    const count = shape.reduce((product, dim) => product * dim, 1);
    const data = new Uint8Array(halves(count, variables.length + 100).buffer);
    variables.push([name, shape, F16_TYPE, data]);
  };
  const linear = (name: string, outputs: number, inputs: number) => {
    add(`${name}/weight`, outputs, inputs);
    add(`${name}/bias`, outputs);
  };
  const norm = (name: string) => {
    add(`${name}/gamma`, width);
    add(`${name}/beta`, width);
  };
  for (const side of ['encoder', 'decoder']) {
    const heads = Uint8Array.of(2, 0);
    variables.push([`${side}/num_heads`, [], I16_TYPE, heads]);
    add(
      `${side}/position_encodings/encodings`,
      side === 'encoder' ? audioContext : textContext,
      width,
    );
    norm(`${side}/layer_norm`);
    const layer = `${side}/layer_0`;
    norm(`${layer}/self_attention/layer_norm`);
    linear(`${layer}/self_attention/linear_0`, 3 * width, width);
    linear(`${layer}/self_attention/linear_1`, width, width);
    norm(`${layer}/ffn/layer_norm`);
    linear(`${layer}/ffn/linear_0`, 4 * width, width);
    linear(`${layer}/ffn/linear_1`, width, 4 * width);
    if (side === 'encoder') continue;
    norm(`${layer}/attention/layer_norm`);
    linear(`${layer}/attention/linear_0`, width, width);
    linear(`${layer}/attention/linear_1`, 2 * width, width);
    linear(`${layer}/attention/linear_2`, width, width);
  }
  add('encoder/conv1/weight', width, mels, 3);
  add('encoder/conv1/bias', width);
  add('encoder/conv2/weight', width, width, 3);
  add('encoder/conv2/bias', width);
  add('decoder/embeddings/weight', vocabulary, width);
  return encodeCTranslate2(change(variables));
}

function encodeCTranslate2(variables: readonly Variable[]): Buffer {
  const u16 = (value: number) => Uint8Array.of(value & 0xff, value >> 8);
  const u32 = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
  };
  const text = (value: string) => [u16(value.length + 1), Buffer.from(`${value}\0`)];
  const encoded = variables.flatMap(([name, shape, type, data]) => [
    ...text(name),
    Uint8Array.of(shape.length),
    ...shape.map(u32),
    Uint8Array.of(type),
    u32(data.length),
    data,
  ]);
  const alias = [...text('decoder/projection/weight'), ...text('decoder/embeddings/weight')];
  const head = [u32(6), ...text('WhisperSpec'), u32(3), u32(variables.length)];
  return Buffer.concat([...head, ...encoded, u32(1), ...alias]);
}

/** A folder as faster-whisper has it. */
export async function writeCTranslate2Folder(folder: string, bytes = cTranslate2Bytes()) {
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'model.bin'), bytes);
  await writeFile(path.join(folder, 'tokenizer.json'), tokenizerJson());
}
