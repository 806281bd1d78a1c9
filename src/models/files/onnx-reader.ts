/**
 * Reads an ONNX file: its graph, subgraphs and weights. Nothing that a file claims about sizes is trusted: every shape
 * must agree with the data that is really there, so memory stays within a small multiple of the file.
 */
import protobuf from 'protobufjs/light.js';
import { WavepoolError } from '../../core/errors.ts';

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
    // The schema below decodes to exactly this interface.
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
  const { name, rawData, floatData, int32Data, int64Data } = message;
  const shape = message.dims.map((dim) => dimension(dim, name));
  const count = shape.reduce((product, dim) => product * dim, 1);
  /** The raw bytes, or undefined where the values are typed. Nothing of their size is allocated unless the shape agrees. */
  const rawOf = (elementBytes: number, typed: number): ArrayBuffer | undefined => {
    const isRaw = rawData.length > 0;
    const found = isRaw ? rawData.length / elementBytes : typed;
    if (found === count) return isRaw ? aligned(rawData) : undefined;
    const said = `tensor ${name} of shape [${shape.join(', ')}]`;
    throw new TensorFault(`${said} needs ${count} values but has ${found}`);
  };
  switch (message.dataType) {
    case FLOAT: {
      const data = new Float32Array(rawOf(4, floatData.length) ?? floatData);
      return { name, shape, type: 'f32', data };
    }
    case UINT8: {
      const data = new Uint8Array(rawOf(1, int32Data.length) ?? int32Data);
      return { name, shape, type: 'u8', data };
    }
    case INT8: {
      const data = new Int8Array(rawOf(1, int32Data.length) ?? int32Data);
      return { name, shape, type: 'i8', data };
    }
    case INT64: {
      const raw = rawOf(8, int64Data.length);
      const typed = () => int64Data.map((value) => BigInt(value.toString()));
      const data = raw === undefined ? BigInt64Array.from(typed()) : new BigInt64Array(raw);
      return { name, shape, type: 'i64', data };
    }
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

/*
 * The messages of onnx.proto3 (github.com/onnx/onnx, IR version 10), reduced to the fields that weights and graph structure
 * need. Field numbers are the format; everything else in a file is skipped.
 */

/** What the schema below decodes to. Absent fields have their proto defaults. */
interface ModelMessage {
  readonly graph: GraphMessage | null;
}

interface GraphMessage {
  readonly node: readonly NodeMessage[];
  readonly name: string;
  readonly initializer: readonly TensorMessage[];
}

interface NodeMessage {
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly name: string;
  readonly opType: string;
  readonly attribute: readonly AttributeMessage[];
}

interface AttributeMessage {
  readonly name: string;
  readonly t: TensorMessage | null;
  readonly g: GraphMessage | null;
  readonly ints: readonly Int64[];
}

interface TensorMessage {
  readonly dims: readonly Int64[];
  readonly dataType: number;
  readonly floatData: readonly number[];
  readonly int32Data: readonly number[];
  readonly int64Data: readonly Int64[];
  readonly name: string;
  readonly rawData: Uint8Array;
  /** 1 when the data lies in another file. */
  readonly dataLocation: number;
}

/** protobufjs gives `Long` objects where the package is installed, numbers otherwise. */
type Int64 = number | { toString(): string };

const schema = protobuf.Root.fromJSON({
  nested: {
    ModelProto: { fields: { graph: { type: 'GraphProto', id: 7 } } },
    GraphProto: {
      fields: {
        node: { rule: 'repeated', type: 'NodeProto', id: 1 },
        name: { type: 'string', id: 2 },
        initializer: { rule: 'repeated', type: 'TensorProto', id: 5 },
      },
    },
    NodeProto: {
      fields: {
        input: { rule: 'repeated', type: 'string', id: 1 },
        output: { rule: 'repeated', type: 'string', id: 2 },
        name: { type: 'string', id: 3 },
        opType: { type: 'string', id: 4 },
        attribute: { rule: 'repeated', type: 'AttributeProto', id: 5 },
      },
    },
    AttributeProto: {
      fields: {
        name: { type: 'string', id: 1 },
        t: { type: 'TensorProto', id: 5 },
        g: { type: 'GraphProto', id: 6 },
        ints: { rule: 'repeated', type: 'int64', id: 8 },
      },
    },
    TensorProto: {
      fields: {
        dims: { rule: 'repeated', type: 'int64', id: 1 },
        dataType: { type: 'int32', id: 2 },
        floatData: { rule: 'repeated', type: 'float', id: 4 },
        int32Data: { rule: 'repeated', type: 'int32', id: 5 },
        int64Data: { rule: 'repeated', type: 'int64', id: 7 },
        name: { type: 'string', id: 8 },
        rawData: { type: 'bytes', id: 9 },
        dataLocation: { type: 'int32', id: 14 },
      },
    },
  },
});

/** The root message of an ONNX file. */
const ModelProto = schema.lookupType('ModelProto');
