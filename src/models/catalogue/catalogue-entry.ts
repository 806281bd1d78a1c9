/** What the catalogue says about a model. All of it is data: the code that downloads and converts is elsewhere. */
import type { TaskKind } from '../../runtime/engine.ts';
import type { Quantization } from './quantization.ts';
import type { Source } from './source.ts';

/** What a model is, wherever it came from. */
export interface ModelDescription {
  /** Also the name of the model's queue and of its folder. */
  readonly id: string;
  /** As native code calls it. */
  readonly family: string;
  readonly task: TaskKind;
  /** BCP 47; empty where language does not matter, `['mul']` for many. */
  readonly languages: readonly string[];
  /** SPDX identifier of the weights. */
  readonly license: string;
  readonly description: string;
}

/** One way to the weights. */
export type Origin =
  | {
      readonly kind: 'files';
      readonly sources: readonly Source[];
      readonly converter: ConverterVersion;
    }
  /** The weights are made here from those of another model of the catalogue. */
  | { readonly kind: 'quantize'; readonly base: string; readonly type: Quantization };

export interface CatalogueEntry extends ModelDescription {
  /** Tried in this order. The evidence that comes with a release is about the first one. */
  readonly origins: readonly Origin[];
}

/** Raise a converter's number whenever the same files would give other weights; installed models are then made again. */
const CONVERTER_VERSIONS = {
  'moonshine-onnx': 1,
  'silero-onnx': 1,
  'silero-safetensors': 1,
  'whisper-ctranslate2': 1,
  'whisper-ggml': 1,
  gguf: 1,
} as const;

/** A converter of models/convert. */
export type ConverterName = keyof typeof CONVERTER_VERSIONS;

/** Enough to tell whether an installed model is what its converter would make now, without the converter's code. */
export interface ConverterVersion {
  readonly name: ConverterName;
  readonly version: number;
}

export function converterVersion(name: ConverterName): ConverterVersion {
  return { name, version: CONVERTER_VERSIONS[name] };
}
