/**
 * Whisper from CTranslate2 (`WhisperSpec`, as faster-whisper uses it) to the ggml format. Weights keep their bits: matrices
 * and convolutions stay f16, vectors and position tables become f32. CTranslate2 joins what attention multiplies by into
 * one matrix; here its rows are separate again.
 */

import { type ByteSource, FileBytes, invalidFile } from '../files/byte-source.ts';
import {
  type CTranslate2Model,
  type CTranslate2Variable,
  readCTranslate2,
} from '../files/ctranslate2-reader.ts';
import type { WrittenFile } from '../files/file-writer.ts';
import { F16, F32 } from '../files/ggml-types.ts';
import {
  type ProducedTensor,
  type WhisperHeader,
  writeWhisperFile,
} from '../files/ggml-whisper-file.ts';
import { halfBits, halfValues } from '../files/half-float.ts';
import {
  checkDimensions,
  type WhisperDimensions,
  whisperTensors,
} from '../files/whisper-layout.ts';
import type { ConversionInput, FileConverter } from './converter.ts';
import { melFilters } from './mel-filters.ts';
import { whisperTokens } from './whisper-tokens.ts';

export const CTRANSLATE2_FILE = 'model.bin';
export const TOKENIZER_FILE = 'tokenizer.json';
const MODEL_FILE = CTRANSLATE2_FILE;
const SPECIFICATION = 'WhisperSpec';
const REVISION = 3;

/** Where a tensor comes from: a variable of CTranslate2 is cut into `parts` equal parts by rows, and this is part number `part`. */
interface Origin {
  readonly variable: string;
  readonly part: number;
  readonly parts: number;
}

export const whisperConverter: FileConverter = { file: 'model.bin', write: convert };

async function convert(input: ConversionInput, target: string): Promise<WrittenFile> {
  const tokens = whisperTokens(await input.read(TOKENIZER_FILE), TOKENIZER_FILE);
  await using source = await FileBytes.open(input.locate(MODEL_FILE), MODEL_FILE);
  const model = await readCTranslate2(source);
  const dimensions = await dimensionsOf(model, source);
  const filters = melFilters(dimensions.mels);
  const header: WhisperHeader = {
    dimensions,
    fileType: F16,
    filters: new Uint8Array(filters.buffer),
    tokens,
  };
  return await writeWhisperFile(target, header, tensorsOf(model, dimensions, source));
}

async function* tensorsOf(
  model: CTranslate2Model,
  dimensions: WhisperDimensions,
  source: ByteSource,
): AsyncGenerator<ProducedTensor> {
  for (const shape of whisperTensors(dimensions)) {
    const type = shape.kind === 'vector' ? F32 : F16;
    const { variable, part, parts } = originOf(shape.name);
    // The bias of a convolution is a column here and a vector there.
    const [inner = 1, ...outer] = shape.dimensions;
    const isColumn = inner === 1 && outer.length === 1;
    const expected = isColumn ? outer : shape.dimensions.toReversed();
    const [rows = 0, ...rest] = expected;
    const found = variableOf(model, variable, [rows * parts, ...rest]);
    const bytes = found.bytes / parts;
    const data = await source.read(found.offset + part * bytes, bytes);
    yield { ...shape, type, chunks: [floats(data, found, type)] };
  }
}

function variableOf(
  { variables }: CTranslate2Model,
  name: string,
  shape: readonly number[],
): CTranslate2Variable {
  const variable = variables.get(name);
  if (variable === undefined) throw invalidFile(MODEL_FILE, `has no ${name}`);
  if (variable.shape.join() !== shape.join()) {
    throw invalidFile(MODEL_FILE, `${name} is [${variable.shape}] where [${shape}] was expected`);
  }
  if (variable.type === 'f16' || variable.type === 'f32') return variable;
  throw invalidFile(MODEL_FILE, `${name} is ${variable.type}; convert a model of float16 weights`);
}

function floats(data: Buffer, { type }: CTranslate2Variable, wanted: number): Uint8Array {
  if (type === 'f16' && wanted === F16) return data;
  if (type === 'f32' && wanted === F32) return data;
  if (type === 'f16') {
    const values = halfValues();
    const output = new Float32Array(data.length / 2);
    for (let at = 0; at < output.length; at++) output[at] = values[data.readUInt16LE(2 * at)] ?? 0;
    return new Uint8Array(output.buffer);
  }
  const output = new Uint16Array(data.length / 4);
  for (let at = 0; at < output.length; at++) output[at] = halfBits(data.readFloatLE(4 * at));
  return new Uint8Array(output.buffer);
}

async function dimensionsOf(
  model: CTranslate2Model,
  source: ByteSource,
): Promise<WhisperDimensions> {
  if (model.specification !== SPECIFICATION || model.revision !== REVISION) {
    const found = `${model.specification} revision ${model.revision}`;
    throw invalidFile(MODEL_FILE, `is ${found} where ${SPECIFICATION} ${REVISION} was expected`);
  }
  const shape = (name: string) => model.variables.get(name)?.shape ?? [];
  const [audioContext = 0, audioState = 0] = shape('encoder/position_encodings/encodings');
  const [textContext = 0, textState = 0] = shape('decoder/position_encodings/encodings');
  const [vocabulary = 0] = shape('decoder/embeddings/weight');
  const [, mels = 0] = shape('encoder/conv1/weight');
  const dimensions: WhisperDimensions = {
    vocabulary,
    audioContext,
    audioState,
    audioHeads: await heads(model, source, 'encoder'),
    audioLayers: layers(model, 'encoder'),
    textContext,
    textState,
    textHeads: await heads(model, source, 'decoder'),
    textLayers: layers(model, 'decoder'),
    mels,
  };
  checkDimensions(MODEL_FILE, dimensions);
  return dimensions;
}

async function heads(model: CTranslate2Model, source: ByteSource, side: string): Promise<number> {
  const variable = model.variables.get(`${side}/num_heads`);
  if (variable?.type !== 'i16' || variable.shape.length > 0) {
    throw invalidFile(MODEL_FILE, `does not say how many heads its ${side} has`);
  }
  return (await source.read(variable.offset, variable.bytes)).readInt16LE();
}

function layers({ variables }: CTranslate2Model, side: string): number {
  let count = 0;
  while (variables.has(`${side}/layer_${count}/ffn/linear_0/weight`)) count++;
  return count;
}

const FIXED: Readonly<Record<string, string>> = {
  'encoder.positional_embedding': 'encoder/position_encodings/encodings',
  'decoder.positional_embedding': 'decoder/position_encodings/encodings',
  'decoder.token_embedding.weight': 'decoder/embeddings/weight',
};

const NORM_PARTS: Readonly<Record<string, string>> = { weight: 'gamma', bias: 'beta' };

/** For each part of a layer, by its name here: the module in CTranslate2, which part of that module it is, and of how many. */
const LAYER_PARTS: Readonly<
  Record<string, readonly [module: string, part: number, parts: number]>
> = {
  'attn.query': ['self_attention/linear_0', 0, 3],
  'attn.key': ['self_attention/linear_0', 1, 3],
  'attn.value': ['self_attention/linear_0', 2, 3],
  'attn.out': ['self_attention/linear_1', 0, 1],
  'cross_attn.query': ['attention/linear_0', 0, 1],
  'cross_attn.key': ['attention/linear_1', 0, 2],
  'cross_attn.value': ['attention/linear_1', 1, 2],
  'cross_attn.out': ['attention/linear_2', 0, 1],
  'mlp.0': ['ffn/linear_0', 0, 1],
  'mlp.2': ['ffn/linear_1', 0, 1],
};

const LAYER_NORMS: Readonly<Record<string, string>> = {
  attn_ln: 'self_attention/layer_norm',
  cross_attn_ln: 'attention/layer_norm',
  mlp_ln: 'ffn/layer_norm',
};

function originOf(name: string): Origin {
  const whole = (variable: string): Origin => ({ variable, part: 0, parts: 1 });
  const fixed = FIXED[name];
  if (fixed !== undefined) return whole(fixed);
  const [, side = '', place = '', kind = ''] = /^(\w+)\.(.+)\.(weight|bias)$/.exec(name) ?? [];
  if (place === 'ln' || place === 'ln_post') return whole(`${side}/layer_norm/${NORM_PARTS[kind]}`);
  const [, layer, inner = ''] = /^blocks\.(\d+)\.(.+)$/.exec(place) ?? [];
  if (layer === undefined) return whole(`${side}/${place}/${kind}`);
  const norm = LAYER_NORMS[inner];
  if (norm !== undefined) return whole(`${side}/layer_${layer}/${norm}/${NORM_PARTS[kind]}`);
  const [module, part, parts] = LAYER_PARTS[inner] ?? [];
  if (module === undefined || part === undefined || parts === undefined) {
    throw new RangeError(`no origin of ${name}`);
  }
  return { variable: `${side}/layer_${layer}/${module}/${kind}`, part, parts };
}
