/** Builds ONNX files field by field, from the numbers in onnx.proto3: independent of the reader's schema. */
import protobuf from 'protobufjs/light.js';

type Field = readonly [id: number, value: number | string | Uint8Array];

/** A protobuf message: numbers as varints, everything else length-delimited. */
export function message(...fields: readonly Field[]): Uint8Array {
  const writer = protobuf.Writer.create();
  for (const [id, value] of fields) {
    if (typeof value === 'number') writer.uint32(id << 3).int64(value);
    else if (typeof value === 'string') writer.uint32((id << 3) | 2).string(value);
    else writer.uint32((id << 3) | 2).bytes(value);
  }
  return writer.finish();
}

/** Packed varints. */
export function packed(...values: readonly number[]): Uint8Array {
  const writer = protobuf.Writer.create();
  for (const value of values) writer.int64(value);
  return writer.finish();
}

export const floats = (...values: readonly number[]) =>
  new Uint8Array(Float32Array.from(values).buffer);

/** TensorProto, with its data in one more field. */
export const tensor = (name: string, dims: readonly number[], dataType: number, data: Field) =>
  message(...dims.map((dim): Field => [1, dim]), [2, dataType], data, [8, name]);

export const RAW_DATA = 9;
export const FLOAT_DATA = 4;
export const INT32_DATA = 5;
export const INT64_DATA = 7;

/** GraphProto. */
export const graph = (nodes: readonly Uint8Array[], initializers: readonly Uint8Array[]) =>
  message(
    ...nodes.map((node): Field => [1, node]),
    [2, 'main'],
    ...initializers.map((initializer): Field => [5, initializer]),
  );

/** NodeProto. */
export const node = (
  opType: string,
  name: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: readonly Uint8Array[] = [],
) =>
  message(
    ...inputs.map((input): Field => [1, input]),
    ...outputs.map((output): Field => [2, output]),
    [3, name],
    [4, opType],
    ...attributes.map((attribute): Field => [5, attribute]),
  );

/** AttributeProto holding a tensor, a graph or integers. */
export const tensorAttribute = (name: string, value: Uint8Array) => message([1, name], [5, value]);
export const graphAttribute = (name: string, value: Uint8Array) => message([1, name], [6, value]);
export const integersAttribute = (name: string, ...values: readonly number[]) =>
  message([1, name], ...values.map((value): Field => [8, value]));

/** ModelProto: IR version 10 and the graph. */
export const model = (main: Uint8Array) => message([1, 10], [7, main]);
