/**
 * Silero VAD from the ONNX file of its release. The graph has one branch per sample rate behind `If (sr == 16000)`; the
 * weights are constants inside the branches, under the names of the original PyTorch modules. Tensors get the names of
 * the release's Safetensors file and keep their bits.
 */
import { FileBytes, invalidFile } from '../files/byte-source.ts';
import type { GgufTensor, GgufValue } from '../files/gguf-writer.ts';
import type { OnnxGraph, OnnxTensor } from '../files/onnx-reader.ts';
import { readSafetensorsIndex } from '../files/safetensors-reader.ts';
import { type ConversionInput, type GgufConverter, generalMetadata } from './converter.ts';

/** The converters ask for their file by this name, whatever its format. */
export const SILERO_FILE = 'silero-vad.onnx';
const FILE = SILERO_FILE;
/** In Hz. The two below are samples: of one window, and of the left context that goes before it. */
const SAMPLE_RATE = 16_000;
const WINDOW = 512;
const CONTEXT = 64;

/** For each tensor: its name in the ONNX file, its name here, its shape. */
const TENSORS: readonly (readonly [string, string, readonly number[]])[] = [
  ['stft.forward_basis_buffer', 'stft_conv.weight', [258, 1, 256]],
  ['encoder.0.reparam_conv.weight', 'conv1.weight', [128, 129, 3]],
  ['encoder.0.reparam_conv.bias', 'conv1.bias', [128]],
  ['encoder.1.reparam_conv.weight', 'conv2.weight', [64, 128, 3]],
  ['encoder.1.reparam_conv.bias', 'conv2.bias', [64]],
  ['encoder.2.reparam_conv.weight', 'conv3.weight', [64, 64, 3]],
  ['encoder.2.reparam_conv.bias', 'conv3.bias', [64]],
  ['encoder.3.reparam_conv.weight', 'conv4.weight', [128, 64, 3]],
  ['encoder.3.reparam_conv.bias', 'conv4.bias', [128]],
  ['decoder.rnn.weight_ih', 'lstm_cell.weight_ih', [512, 128]],
  ['decoder.rnn.weight_hh', 'lstm_cell.weight_hh', [512, 128]],
  ['decoder.rnn.bias_ih', 'lstm_cell.bias_ih', [512]],
  ['decoder.rnn.bias_hh', 'lstm_cell.bias_hh', [512]],
  ['decoder.decoder.2.weight', 'final_conv.weight', [1, 128, 1]],
  ['decoder.decoder.2.bias', 'final_conv.bias', [1]],
];

export const sileroVadConverter: GgufConverter = {
  convert: async (input) => {
    const { readOnnx } = await import('../files/onnx-reader.ts');
    const constants = wideBandConstants(readOnnx(await input.read(FILE), FILE));
    const tensors = TENSORS.map(([source, name, shape]): GgufTensor => {
      const tensor = constants.get(source);
      if (tensor?.type !== 'f32') throw invalidFile(FILE, `no f32 constant ${source}`);
      checkShape(source, tensor.shape, shape);
      return { name, shape, type: 'f32', data: tensor.data };
    });
    return { metadata: metadataOf(input), tensors };
  },
};

/** Reads the Safetensors file of a release, whose tensors have the right names already. */
export const sileroSafetensorsConverter: GgufConverter = {
  convert: async (input) => {
    await using source = await FileBytes.open(input.locate(FILE), FILE);
    const index = await readSafetensorsIndex(source);
    const tensors: GgufTensor[] = [];
    for (const [, name, shape] of TENSORS) {
      const tensor = index.get(name);
      if (tensor?.type !== 'F32') throw invalidFile(FILE, `no F32 tensor ${name}`);
      checkShape(name, tensor.shape, shape);
      const bytes = await source.read(tensor.offset, tensor.bytes);
      // A copy of its own: where the bytes lie in a larger buffer need not be a multiple of four.
      const data = new Float32Array(new Uint8Array(bytes).buffer);
      tensors.push({ name, shape, type: 'f32', data });
    }
    return { metadata: metadataOf(input), tensors };
  },
};

/** The tensors that a GGUF file of this family holds, with their shapes outermost first. */
export const SILERO_TENSORS = TENSORS.map(([, name, shape]) => ({ name, shape }));

function checkShape(name: string, found: readonly number[], shape: readonly number[]): void {
  if (found.join() === shape.join()) return;
  throw invalidFile(FILE, `${name} is [${found}] where [${shape}] was expected`);
}

function metadataOf(input: ConversionInput): Map<string, GgufValue> {
  return new Map<string, GgufValue>([
    ...generalMetadata('silero-vad', input),
    ['silero.sample_rate', { type: 'u32', value: SAMPLE_RATE }],
    ['silero.window', { type: 'u32', value: WINDOW }],
    ['silero.context', { type: 'u32', value: CONTEXT }],
  ]);
}

/** The named constants of the 16 kHz branch. */
function wideBandConstants(graph: OnnxGraph): Map<string, OnnxTensor> {
  const producers = new Map(
    graph.nodes.flatMap((node) => node.outputs.map((output) => [output, node] as const)),
  );
  const isWideBandTest = (condition: string | undefined) => {
    const test = producers.get(condition ?? '');
    const rate = test?.inputs.map((name) => producers.get(name)?.tensors.get('value'));
    return (
      test?.opType === 'Equal' &&
      test.inputs.includes('sr') &&
      rate?.some((tensor) => tensor?.type === 'i64' && tensor.data[0] === BigInt(SAMPLE_RATE))
    );
  };
  const choice = graph.nodes.find((node) => node.opType === 'If' && isWideBandTest(node.inputs[0]));
  const branch = choice?.graphs.get('then_branch');
  if (branch === undefined) throw invalidFile(FILE, `no branch for ${SAMPLE_RATE} Hz`);
  const constants = new Map<string, OnnxTensor>();
  for (const node of branch.nodes) {
    const tensor = node.opType === 'Constant' ? node.tensors.get('value') : undefined;
    if (tensor !== undefined && tensor.name !== '') constants.set(tensor.name, tensor);
  }
  return constants;
}
