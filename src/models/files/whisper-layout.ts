/** The dimensions of a Whisper checkpoint, and the tensors that follow from them, by the names of whisper.cpp. */
import { invalidFile } from './byte-source.ts';

export interface WhisperDimensions {
  readonly vocabulary: number;
  readonly audioContext: number;
  readonly audioState: number;
  readonly audioHeads: number;
  readonly audioLayers: number;
  readonly textContext: number;
  readonly textState: number;
  readonly textHeads: number;
  readonly textLayers: number;
  readonly mels: number;
}

/**
 * `matrix`: what quantizing changes, in rows of the first dimension. `convolution` stays f16, `vector` and the two
 * position tables stay f32.
 */
export type WhisperTensorKind = 'matrix' | 'convolution' | 'vector';

export interface WhisperTensorShape {
  readonly name: string;
  readonly kind: WhisperTensorKind;
  /** Innermost first, as ggml counts. */
  readonly dimensions: readonly number[];
}

/** The order is that of the fields in a ggml file. */
export const DIMENSION_NAMES = [
  'vocabulary',
  'audioContext',
  'audioState',
  'audioHeads',
  'audioLayers',
  'textContext',
  'textState',
  'textHeads',
  'textLayers',
  'mels',
] as const satisfies readonly (keyof WhisperDimensions)[];

/** Least and most of each that is believed: room around tiny … large-v3 and the distilled ones. */
const LIMITS: Readonly<Record<keyof WhisperDimensions, readonly [number, number]>> = {
  vocabulary: [51_864, 52_000],
  audioContext: [1, 1_500],
  audioState: [64, 2_048],
  audioHeads: [1, 64],
  audioLayers: [1, 64],
  textContext: [8, 448],
  textState: [64, 2_048],
  textHeads: [1, 64],
  textLayers: [1, 64],
  mels: [80, 128],
};

/** English-only checkpoints have one token fewer than the first multilingual ones. */
const FIRST_MULTILINGUAL_VOCABULARY = 51_865;

export function isMultilingual({ vocabulary }: Pick<WhisperDimensions, 'vocabulary'>): boolean {
  return vocabulary >= FIRST_MULTILINGUAL_VOCABULARY;
}

/** @throws {WavepoolError} MODEL_FILE_INVALID */
export function checkDimensions(file: string, dimensions: WhisperDimensions): void {
  for (const name of DIMENSION_NAMES) {
    const [least, most] = LIMITS[name];
    const value = dimensions[name];
    if (value < least || value > most) throw invalidFile(file, `${name} is ${value}`);
  }
  const { audioState, audioHeads, textState, textHeads } = dimensions;
  if (audioState !== textState) throw invalidFile(file, 'encoder and decoder differ in width');
  if (audioState % 32 !== 0) throw invalidFile(file, `a width of ${audioState} is in no blocks`);
  for (const heads of [audioHeads, textHeads]) {
    if (audioState % heads !== 0) throw invalidFile(file, `${heads} heads share ${audioState}`);
  }
}

/** Every tensor, in the order in which our files have them. */
export function whisperTensors(dimensions: WhisperDimensions): WhisperTensorShape[] {
  const { audioState: width, mels, audioContext, textContext, vocabulary } = dimensions;
  const tensors: WhisperTensorShape[] = [
    { name: 'encoder.conv1.weight', kind: 'convolution', dimensions: [3, mels, width] },
    { name: 'encoder.conv1.bias', kind: 'vector', dimensions: [1, width] },
    { name: 'encoder.conv2.weight', kind: 'convolution', dimensions: [3, width, width] },
    { name: 'encoder.conv2.bias', kind: 'vector', dimensions: [1, width] },
    { name: 'encoder.positional_embedding', kind: 'vector', dimensions: [width, audioContext] },
    ...layerNorm('encoder.ln_post', width),
  ];
  for (let layer = 0; layer < dimensions.audioLayers; layer++) {
    tensors.push(...block(`encoder.blocks.${layer}`, width, ['attn']));
  }
  tensors.push(
    { name: 'decoder.positional_embedding', kind: 'vector', dimensions: [width, textContext] },
    ...layerNorm('decoder.ln', width),
  );
  for (let layer = 0; layer < dimensions.textLayers; layer++) {
    tensors.push(...block(`decoder.blocks.${layer}`, width, ['attn', 'cross_attn']));
  }
  tensors.push({
    name: 'decoder.token_embedding.weight',
    kind: 'matrix',
    dimensions: [width, vocabulary],
  });
  return tensors;
}

function block(
  name: string,
  width: number,
  attentions: readonly ('attn' | 'cross_attn')[],
): WhisperTensorShape[] {
  const vector = (part: string, length: number): WhisperTensorShape => {
    return { name: `${name}.${part}`, kind: 'vector', dimensions: [length] };
  };
  const matrix = (part: string, inputs: number, outputs: number): WhisperTensorShape => {
    return { name: `${name}.${part}`, kind: 'matrix', dimensions: [inputs, outputs] };
  };
  return [
    ...attentions.flatMap((attention) => [
      ...layerNorm(`${name}.${attention}_ln`, width),
      matrix(`${attention}.query.weight`, width, width),
      vector(`${attention}.query.bias`, width),
      matrix(`${attention}.key.weight`, width, width),
      matrix(`${attention}.value.weight`, width, width),
      vector(`${attention}.value.bias`, width),
      matrix(`${attention}.out.weight`, width, width),
      vector(`${attention}.out.bias`, width),
    ]),
    ...layerNorm(`${name}.mlp_ln`, width),
    matrix('mlp.0.weight', width, 4 * width),
    vector('mlp.0.bias', 4 * width),
    matrix('mlp.2.weight', 4 * width, width),
    vector('mlp.2.bias', width),
  ];
}

function layerNorm(name: string, width: number): WhisperTensorShape[] {
  return ['weight', 'bias'].map((part) => {
    return { name: `${name}.${part}`, kind: 'vector', dimensions: [width] };
  });
}
