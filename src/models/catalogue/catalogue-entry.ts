/** What the catalogue says about a model. */
import type { TaskKind } from '../../runtime/engine.ts';
import type { Converter } from '../convert/converter.ts';
import type { Source } from '../download/source.ts';
import type { Quantization } from '../files/quantize.ts';

/** What a model is, wherever it came from. */
export interface ModelDescription {
  /** Also the name of the model's queue and folder. */
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
  | { readonly kind: 'files'; readonly sources: readonly Source[]; readonly converter: Converter }
  /** From another model of the catalogue, here. */
  | { readonly kind: 'quantize'; readonly base: string; readonly type: Quantization };

export interface CatalogueEntry extends ModelDescription {
  /** Tried in this order; the first is the one that evidence of releases is about. */
  readonly origins: readonly Origin[];
}
