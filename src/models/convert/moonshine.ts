/**
 * Moonshine from the dynamically quantized ONNX export: encoder_model.onnx and decoder_model_merged.onnx.
 *
 * Weights stay the exact integers of the export. A matrix becomes an i8 tensor NAME with NAME.scale and NAME.offset
 * (f32, one element): w = scale · q + offset. The export names matrices by running numbers, so they are found through
 * the names of the nodes that multiply by them.
 */
import type { WavepoolError } from '../../core/errors.ts';
import { invalidFile } from '../files/byte-source.ts';
import type { GgufContents, GgufTensor, GgufValue } from '../files/gguf-writer.ts';
import type { OnnxGraph, OnnxNode, OnnxTensor } from '../files/onnx-reader.ts';
import { type ConversionInput, type GgufConverter, generalMetadata } from './converter.ts';
import { moonshineTokens } from './moonshine-tokens.ts';

const WIDTH = 288;
const FEED_FORWARD = 1152;
const LAYERS = 6;
const HEADS = 8;
const ROPE_DIMENSIONS = 32;
const VOCABULARY = 32_768;

export const ENCODER_FILE = 'encoder.onnx';
export const DECODER_FILE = 'decoder.onnx';
export const TOKENIZER_FILE = 'tokenizer.js';

const PROJECTIONS = [
  ['q_proj', 'q'],
  ['k_proj', 'k'],
  ['v_proj', 'v'],
  ['dense', 'out'],
] as const;

export const moonshineConverter: GgufConverter = { convert };

async function convert(input: ConversionInput): Promise<GgufContents> {
  const tokens = moonshineTokens(await input.read(TOKENIZER_FILE), TOKENIZER_FILE);
  const { readOnnx } = await import('../files/onnx-reader.ts');
  const encoder = readOnnx(await input.read(ENCODER_FILE), ENCODER_FILE);
  const decoder = readOnnx(await input.read(DECODER_FILE), DECODER_FILE);
  const metadata = new Map<string, GgufValue>([
    ...generalMetadata('moonshine', input),
    ['moonshine.embedding_length', { type: 'u32', value: WIDTH }],
    ['moonshine.feed_forward_length', { type: 'u32', value: FEED_FORWARD }],
    ['moonshine.block_count.encoder', { type: 'u32', value: LAYERS }],
    ['moonshine.block_count.decoder', { type: 'u32', value: LAYERS }],
    ['moonshine.attention.head_count', { type: 'u32', value: HEADS }],
    ['moonshine.rope.dimension_count', { type: 'u32', value: ROPE_DIMENSIONS }],
    ['moonshine.vocab_size', { type: 'u32', value: VOCABULARY }],
    ['tokenizer.ggml.tokens', { type: 'strings', value: tokens }],
  ]);
  return { metadata, tensors: [...encoderTensors(encoder), ...decoderTensors(decoder)] };
}

function* encoderTensors(graph: OnnxGraph): Generator<GgufTensor> {
  const view = new GraphView(graph, ENCODER_FILE);
  const multiplications = matrixNodes([graph]);
  const vector = (source: string, name: string, length: number) =>
    view.f32Tensor(source, `encoder.${name}`, [length]);
  const matrix = (node: string, name: string, inputs: number, outputs: number) =>
    matrixTensors(view, multiplications, node, `encoder.${name}`, [inputs, outputs]);

  yield* convolutionTensors(view, 'conv1', [WIDTH, 1, 127]);
  const groupNorm = (op: string) => view.input(view.node(`/groupnorm/${op}`), 1);
  yield vector(groupNorm('Mul'), 'group_norm.weight', WIDTH);
  yield vector(groupNorm('Add'), 'group_norm.bias', WIDTH);
  yield* convolutionTensors(view, 'conv2', [2 * WIDTH, WIDTH, 7]);
  yield vector('conv2.bias', 'conv2.bias', 2 * WIDTH);
  yield* convolutionTensors(view, 'conv3', [WIDTH, 2 * WIDTH, 3]);
  yield vector('conv3.bias', 'conv3.bias', WIDTH);
  for (let layer = 0; layer < LAYERS; layer++) {
    const source = `layers.${layer}`;
    const block = `blocks.${layer}`;
    yield vector(`${source}.input_layernorm.weight`, `${block}.attn_norm.weight`, WIDTH);
    for (const [from, to] of PROJECTIONS) {
      yield* matrix(`${source}/self_attn/${from}`, `${block}.attn.${to}.weight`, WIDTH, WIDTH);
    }
    yield vector(`${source}.post_attention_layernorm.weight`, `${block}.mlp_norm.weight`, WIDTH);
    yield* matrix(`${source}/mlp/fc1`, `${block}.mlp.fc1.weight`, WIDTH, FEED_FORWARD);
    yield vector(`${source}.mlp.fc1.bias`, `${block}.mlp.fc1.bias`, FEED_FORWARD);
    yield* matrix(`${source}/mlp/fc2`, `${block}.mlp.fc2.weight`, FEED_FORWARD, WIDTH);
    yield vector(`${source}.mlp.fc2.bias`, `${block}.mlp.fc2.bias`, WIDTH);
  }
  yield vector('layer_norm.weight', 'norm.weight', WIDTH);
}

/** The decoder's nodes lie in the two branches of one `If` (with and without cache), its weights outside of them. */
function* decoderTensors(graph: OnnxGraph): Generator<GgufTensor> {
  const view = new GraphView(graph, DECODER_FILE);
  const branches = graph.nodes.flatMap((node) => [...node.graphs.values()]);
  const multiplications = matrixNodes([graph, ...branches]);
  const vector = (source: string, name: string, length: number) =>
    view.f32Tensor(`model.decoder.${source}_merged_0`, `decoder.${name}`, [length]);
  const matrix = (node: string, name: string, inputs: number, outputs: number) =>
    matrixTensors(view, multiplications, `model/decoder/${node}`, `decoder.${name}`, [
      inputs,
      outputs,
    ]);

  yield* quantizedTensors(
    view,
    'model.decoder.embed_tokens.weight_merged_0',
    'decoder.token_embedding.weight',
    [VOCABULARY, WIDTH],
    false,
  );
  for (let layer = 0; layer < LAYERS; layer++) {
    const source = `layers.${layer}`;
    const block = `blocks.${layer}`;
    yield vector(`${source}.input_layernorm.weight`, `${block}.self_attn_norm.weight`, WIDTH);
    for (const [from, to] of PROJECTIONS) {
      yield* matrix(`${source}/self_attn/${from}`, `${block}.self_attn.${to}.weight`, WIDTH, WIDTH);
    }
    yield vector(
      `${source}.post_attention_layernorm.weight`,
      `${block}.cross_attn_norm.weight`,
      WIDTH,
    );
    for (const [from, to] of PROJECTIONS) {
      yield* matrix(
        `${source}/encoder_attn/${from}`,
        `${block}.cross_attn.${to}.weight`,
        WIDTH,
        WIDTH,
      );
    }
    yield vector(`${source}.final_layernorm.weight`, `${block}.mlp_norm.weight`, WIDTH);
    yield* matrix(`${source}/mlp/up_proj`, `${block}.mlp.up.weight`, WIDTH, 2 * FEED_FORWARD);
    yield vector(`${source}.mlp.up_proj.bias`, `${block}.mlp.up.bias`, 2 * FEED_FORWARD);
    yield* matrix(`${source}/mlp/down_proj`, `${block}.mlp.down.weight`, FEED_FORWARD, WIDTH);
    yield vector(`${source}.mlp.down_proj.bias`, `${block}.mlp.down.bias`, WIDTH);
  }
  yield vector('norm.weight', 'norm.weight', WIDTH);
}

/** Quantized multiplications by the name of the layer that they compute, e.g. `layers.0/mlp/fc1`. */
function matrixNodes(graphs: readonly OnnxGraph[]): Map<string, OnnxNode> {
  const found = new Map<string, OnnxNode>();
  for (const node of graphs.flatMap((graph) => graph.nodes)) {
    const layer = /^\/(.+)\/MatMul_quant$/.exec(node.name)?.[1];
    if (node.opType === 'MatMulInteger' && layer !== undefined) found.set(layer, node);
  }
  return found;
}

function* matrixTensors(
  view: GraphView,
  multiplications: ReadonlyMap<string, OnnxNode>,
  layer: string,
  name: string,
  sourceShape: readonly [inputs: number, outputs: number],
): Generator<GgufTensor> {
  const node = multiplications.get(layer);
  if (node === undefined) throw view.fault(`no quantized multiplication ${layer}`);
  const weight = view.input(node, 1);
  if (!weight.endsWith('_quantized')) throw view.fault(`${layer} multiplies by ${weight}`);
  yield* quantizedTensors(view, weight.slice(0, -'_quantized'.length), name, sourceShape, true);
}

/** A u8 matrix with w = scale · (q − zero point), optionally transposed, as i8: q − 128. */
function* quantizedTensors(
  view: GraphView,
  source: string,
  name: string,
  sourceShape: readonly [rows: number, columns: number],
  transposed: boolean,
): Generator<GgufTensor> {
  const tensor = view.tensor(`${source}_quantized`);
  if (tensor.type !== 'u8') throw view.fault(`weight ${source} is not u8`);
  checkShape(view, tensor, sourceShape);
  const zeroPoint = view.tensor(`${source}_zero_point`);
  if (zeroPoint.type !== 'u8' || zeroPoint.data.length !== 1) {
    throw view.fault(`the zero point of ${source} is no u8 scalar`);
  }
  const scale = view.scalar(`${source}_scale`);
  const [rows, columns] = sourceShape;
  const data = new Int8Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const from = row * columns + column;
      data[transposed ? column * rows + row : from] = (tensor.data[from] ?? 0) - 128;
    }
  }
  yield { name, shape: transposed ? [columns, rows] : sourceShape, type: 'i8', data };
  yield* affine(name, scale, scale * (128 - (zeroPoint.data[0] ?? 0)));
}

/** A convolution's i8 weights with w = scale · q + zero point: here the zero point is a float to be added. */
function* convolutionTensors(
  view: GraphView,
  layer: string,
  shape: readonly number[],
): Generator<GgufTensor> {
  const name = `encoder.${layer}.weight`;
  const tensor = view.tensor(`${layer}.weight_quantized`);
  if (tensor.type !== 'i8') throw view.fault(`weight ${layer} is not i8`);
  checkShape(view, tensor, shape);
  yield { name, shape, type: 'i8', data: tensor.data };
  yield* affine(
    name,
    view.scalar(`${layer}.weight_scale`),
    view.scalar(`${layer}.weight_zero_point`),
  );
}

function* affine(name: string, scale: number, offset: number): Generator<GgufTensor> {
  yield { name: `${name}.scale`, shape: [1], type: 'f32', data: Float32Array.of(scale) };
  yield { name: `${name}.offset`, shape: [1], type: 'f32', data: Float32Array.of(offset) };
}

function checkShape(view: GraphView, tensor: OnnxTensor, expected: readonly number[]): void {
  if (tensor.shape.join() === expected.join()) return;
  throw view.fault(`weight ${tensor.name} is [${tensor.shape}] where [${expected}] was expected`);
}

/** Typed lookups in one ONNX graph; each throws MODEL_FILE_INVALID naming what is missing. */
export class GraphView {
  readonly #graph: OnnxGraph;
  readonly #file: string;
  readonly #nodes = new Map<string, OnnxNode>();

  constructor(graph: OnnxGraph, file: string) {
    this.#graph = graph;
    this.#file = file;
    for (const node of graph.nodes) this.#nodes.set(node.name, node);
  }

  fault(reason: string): WavepoolError {
    return invalidFile(this.#file, reason);
  }

  node(name: string): OnnxNode {
    const node = this.#nodes.get(name);
    if (node === undefined) throw this.fault(`no node ${name}`);
    return node;
  }

  input(node: OnnxNode, index: number): string {
    const name = node.inputs[index];
    if (name === undefined) throw this.fault(`node ${node.name} has no input ${index}`);
    return name;
  }

  tensor(name: string): OnnxTensor {
    const tensor = this.#graph.initializers.get(name);
    if (tensor === undefined) throw this.fault(`no weight ${name}`);
    return tensor;
  }

  f32(name: string): Float32Array {
    const tensor = this.tensor(name);
    if (tensor.type !== 'f32') throw this.fault(`weight ${name} is not f32`);
    return tensor.data;
  }

  /** The only value of a one-element f32 tensor. */
  scalar(name: string): number {
    const [value, ...more] = this.f32(name);
    if (value === undefined || more.length > 0) throw this.fault(`weight ${name} is no scalar`);
    return value;
  }

  /** A vector or matrix under its name in the GGUF file, after checking how many values it has. */
  f32Tensor(source: string, name: string, shape: readonly number[]): GgufTensor {
    const data = this.f32(source);
    if (data.length !== shape.reduce((product, dim) => product * dim, 1)) {
      throw this.fault(`weight ${source} has ${data.length} values where [${shape}] was expected`);
    }
    return { name, shape, type: 'f32', data };
  }
}
