/** What every converter takes and gives. */
import type { WrittenFile } from '../files/file-writer.ts';
import type { GgufContents } from '../files/gguf-writer.ts';
import type { WeightsFile } from '../installed/model-record.ts';

export interface ConversionInput {
  /** The catalogue's id of the model: `general.name`. */
  readonly id: string;
  /** SPDX identifier: `general.license`. */
  readonly license: string;
  /** The packages, each as `name@version`, joined with ", ": `general.source`. */
  readonly source: string;
  /** Reads a source file by the name that the catalogue gives it. */
  readonly read: (name: string) => Promise<Uint8Array>;
  /** Tells where such a file lies, for a converter that does not read it at once. */
  readonly locate: (name: string) => string;
}

/** Makes the weights of a family from published files. Its version is in catalogue/catalogue-entry.ts. */
export type Converter = GgufConverter | FileConverter;

export interface GgufConverter {
  /** @throws {WavepoolError} MODEL_FILE_INVALID */
  readonly convert: (input: ConversionInput) => Promise<GgufContents>;
}

export interface FileConverter {
  /** The name of the file of weights once it is installed. */
  readonly file: WeightsFile;
  /**
   * Writes the whole file or none.
   * @throws {WavepoolError} MODEL_FILE_INVALID
   */
  readonly write: (input: ConversionInput, target: string) => Promise<WrittenFile>;
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
