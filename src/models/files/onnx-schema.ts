/**
 * The messages of onnx.proto3 (github.com/onnx/onnx, IR version 10) reduced to the fields that weights and graph
 * structure need. Field numbers are the format; everything else in a file is skipped.
 */
import protobuf from 'protobufjs/light.js';

/** What the reflection types below decode to. Absent fields read as their proto defaults. */
export interface ModelMessage {
  readonly graph: GraphMessage | null;
}

export interface GraphMessage {
  readonly node: readonly NodeMessage[];
  readonly name: string;
  readonly initializer: readonly TensorMessage[];
}

export interface NodeMessage {
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly name: string;
  readonly opType: string;
  readonly attribute: readonly AttributeMessage[];
}

export interface AttributeMessage {
  readonly name: string;
  readonly t: TensorMessage | null;
  readonly g: GraphMessage | null;
  readonly ints: readonly Int64[];
}

export interface TensorMessage {
  readonly dims: readonly Int64[];
  readonly dataType: number;
  readonly floatData: readonly number[];
  readonly int32Data: readonly number[];
  readonly int64Data: readonly Int64[];
  readonly name: string;
  readonly rawData: Uint8Array;
  /** 1 = the data lies in another file. */
  readonly dataLocation: number;
}

/** protobufjs gives `Long` objects where the package is installed, numbers otherwise. */
export type Int64 = number | { toString(): string };

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
export const ModelProto = schema.lookupType('ModelProto');
