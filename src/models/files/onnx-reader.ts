/**
 * Reads an ONNX file: its graph, subgraphs and weights. Nothing that a file claims about sizes is trusted: every shape
 * must agree with the data that is really there, so memory stays within a small multiple of the file.
 */
import { WavepoolError } from '../../core/errors.ts';
import {
  type AttributeMessage,
  type GraphMessage,
  type Int64,
  type ModelMessage,
  ModelProto,
  type TensorMessage,
} from './onnx-schema.ts';

/** A weight or constant; `shape` is outermost first and multiplies to `data.length`. */
export type OnnxTensor = { readonly name: string; readonly shape: readonly number[] } & (
  | { readonly type: 'f32'; readonly data: Float32Array }
  | { readonly type: 'u8'; readonly data: Uint8Array }
  | { readonly type: 'i8'; readonly data: Int8Array }
  | { readonly type: 'i64'; readonly data: BigInt64Array }
);

export interface OnnxNode {
  readonly opType: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** By name; attributes of other kinds (floats, strings) are left out. */
  readonly tensors: ReadonlyMap<string, OnnxTensor>;
  readonly graphs: ReadonlyMap<string, OnnxGraph>;
  readonly integers: ReadonlyMap<string, readonly number[]>;
}

export interface OnnxGraph {
  readonly name: string;
  readonly nodes: readonly OnnxNode[];
  /** Weights of the four types above; others (strings, f16, data in another file) are left out. */
  readonly initializers: ReadonlyMap<string, OnnxTensor>;
}

/** Numbers of TensorProto.DataType. */
const FLOAT = 1;
const UINT8 = 2;
const INT8 = 3;
const INT64 = 7;
const EXTERNAL = 1;

/**
 * The main graph of an ONNX file.
 * @param file how messages call the file
 * @throws {WavepoolError} MODEL_FILE_INVALID when it is truncated, damaged or not ONNX
 */
export function readOnnx(bytes: Uint8Array, file: string): OnnxGraph {
  const invalid = (reason: string, cause?: unknown) =>
    new WavepoolError('MODEL_FILE_INVALID', `${file}: ${reason}`, { cause });
  let model: ModelMessage;
  try {
    // The reflection schema of onnx-schema.ts decodes to exactly this interface.
    model = ModelProto.decode(bytes) as unknown as ModelMessage;
  } catch (thrown) {
    throw invalid('not an ONNX file, or damaged', thrown);
  }
  if (model.graph === null) throw invalid('an ONNX file without a graph');
  try {
    return readGraph(model.graph);
  } catch (thrown) {
    if (thrown instanceof TensorFault) throw invalid(thrown.message);
    throw thrown;
  }
}

/** A tensor that contradicts itself; `readOnnx` adds the file. */
class TensorFault extends Error {}

function readGraph(message: GraphMessage): OnnxGraph {
  const initializers = new Map<string, OnnxTensor>();
  for (const initializer of message.initializer) {
    const tensor = readTensor(initializer);
    if (tensor !== undefined) initializers.set(tensor.name, tensor);
  }
  const nodes = message.node.map((node) => ({
    opType: node.opType,
    name: node.name,
    inputs: node.input,
    outputs: node.output,
    ...readAttributes(node.attribute),
  }));
  return { name: message.name, nodes, initializers };
}

function readAttributes(
  attributes: readonly AttributeMessage[],
): Pick<OnnxNode, 'tensors' | 'graphs' | 'integers'> {
  const tensors = new Map<string, OnnxTensor>();
  const graphs = new Map<string, OnnxGraph>();
  const integers = new Map<string, readonly number[]>();
  for (const { name, t, g, ints } of attributes) {
    const tensor = t === null ? undefined : readTensor(t);
    if (tensor !== undefined) tensors.set(name, tensor);
    if (g !== null) graphs.set(name, readGraph(g));
    if (ints.length > 0) integers.set(name, ints.map(Number));
  }
  return { tensors, graphs, integers };
}

function readTensor(message: TensorMessage): OnnxTensor | undefined {
  if (message.dataLocation === EXTERNAL) return undefined;
  const { name, rawData } = message;
  const shape = message.dims.map((dim) => dimension(dim, name));
  const count = shape.reduce((product, dim) => product * dim, 1);
  const raw = rawData.length > 0;
  /** Checks the shape against the data before anything of that size is allocated. */
  const expect = (length: number, elementBytes: number, typed: number) => {
    const found = raw ? length / elementBytes : typed;
    if (found !== count) {
      throw new TensorFault(
        `tensor ${name} of shape [${shape.join(', ')}] needs ${count} values but has ${found}`,
      );
    }
  };
  switch (message.dataType) {
    case FLOAT:
      expect(rawData.length, 4, message.floatData.length);
      return {
        name,
        shape,
        type: 'f32',
        data: raw ? new Float32Array(aligned(rawData)) : Float32Array.from(message.floatData),
      };
    case UINT8:
      expect(rawData.length, 1, message.int32Data.length);
      return {
        name,
        shape,
        type: 'u8',
        data: raw ? new Uint8Array(aligned(rawData)) : Uint8Array.from(message.int32Data),
      };
    case INT8:
      expect(rawData.length, 1, message.int32Data.length);
      return {
        name,
        shape,
        type: 'i8',
        data: raw ? new Int8Array(aligned(rawData)) : Int8Array.from(message.int32Data),
      };
    case INT64:
      expect(rawData.length, 8, message.int64Data.length);
      return {
        name,
        shape,
        type: 'i64',
        data: raw
          ? new BigInt64Array(aligned(rawData))
          : BigInt64Array.from(message.int64Data, (value) => BigInt(value.toString())),
      };
    default:
      return undefined;
  }
}

function dimension(value: Int64, tensor: string): number {
  const dim = Number(value);
  if (Number.isSafeInteger(dim) && dim >= 0) return dim;
  throw new TensorFault(`tensor ${tensor} has the impossible dimension ${dim}`);
}

/** The bytes in a buffer of their own: a slice of the file need not lie on a multiple of the element size. */
function aligned(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}
