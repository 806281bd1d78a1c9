/** What every converter takes and gives, and the lookups that they share. */
import { WavepoolError } from '../../core/errors.ts';
import type { WrittenFile } from '../files/file-writer.ts';
import type { GgufContents, GgufTensor } from '../files/gguf-writer.ts';
import type { OnnxGraph, OnnxNode, OnnxTensor } from '../files/onnx-reader.ts';
import type { WeightsFile } from '../model-record.ts';

export interface ConversionInput {
  /** The catalogue's id of the model: `general.name`. */
  readonly id: string;
  /** SPDX identifier: `general.license`. */
  readonly license: string;
  /** The packages, each as `name@version`, joined with ", ": `general.source`. */
  readonly source: string;
  /** Reads a source file by the name that the catalogue gives it. */
  readonly read: (name: string) => Promise<Uint8Array>;
  /** Where such a file lies, for what is too large to be read at once. */
  readonly locate: (name: string) => string;
}

/** Makes the weights of a family from published files. */
export type Converter = GgufConverter | FileConverter;

export interface GgufConverter {
  /** Raised whenever the same input would give another file; installed models are then converted again. */
  readonly version: number;
  /** @throws {WavepoolError} MODEL_FILE_INVALID */
  readonly convert: (input: ConversionInput) => Promise<GgufContents>;
}

/** Writes a file of its own format, by `writeWholeFile`. */
export interface FileConverter {
  /** As for `GgufConverter`. */
  readonly version: number;
  /** What it writes. */
  readonly file: WeightsFile;
  /** @throws {WavepoolError} MODEL_FILE_INVALID */
  readonly write: (input: ConversionInput, target: string) => Promise<WrittenFile>;
}

export function invalidModel(file: string, reason: string): WavepoolError {
  return new WavepoolError('MODEL_FILE_INVALID', `${file}: ${reason}`);
}

/** The GGUF metadata that every model carries. */
export function generalMetadata(architecture: string, input: ConversionInput) {
  return [
    ['general.architecture', { type: 'string', value: architecture }],
    ['general.name', { type: 'string', value: input.id }],
    ['general.license', { type: 'string', value: input.license }],
    ['general.source', { type: 'string', value: input.source }],
  ] as const;
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
    return invalidModel(this.#file, reason);
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
