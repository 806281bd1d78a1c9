/** ggml's tensor types, as far as models here are made of them. */

interface GgmlType {
  /** This number stands for the type in files. */
  readonly number: number;
  /** Values are stored in blocks; most types have blocks of one value. */
  readonly blockValues: number;
  readonly blockBytes: number;
}

/** Values in a block of the quantized types. */
export const BLOCK = 32;

export const GGML_TYPES = {
  f32: { number: 0, blockValues: 1, blockBytes: 4 },
  f16: { number: 1, blockValues: 1, blockBytes: 2 },
  q4_0: { number: 2, blockValues: BLOCK, blockBytes: 18 },
  q4_1: { number: 3, blockValues: BLOCK, blockBytes: 20 },
  q5_0: { number: 6, blockValues: BLOCK, blockBytes: 22 },
  q5_1: { number: 7, blockValues: BLOCK, blockBytes: 24 },
  q8_0: { number: 8, blockValues: BLOCK, blockBytes: 34 },
  i8: { number: 24, blockValues: 1, blockBytes: 1 },
  bf16: { number: 30, blockValues: 1, blockBytes: 2 },
} as const satisfies Readonly<Record<string, GgmlType>>;

export const F32 = GGML_TYPES.f32.number;
export const F16 = GGML_TYPES.f16.number;

const BY_NUMBER: ReadonlyMap<number, GgmlType> = new Map(
  Object.values(GGML_TYPES).map((type) => [type.number, type]),
);

/**
 * The size of a tensor's data.
 * @param dimensions innermost first
 * @param type by its number
 * @returns undefined for a type that is not known here, and for rows that are not whole blocks
 */
export function tensorBytes(dimensions: readonly number[], type: number): number | undefined {
  const known = BY_NUMBER.get(type);
  const values = dimensions.reduce((product, dim) => product * dim, 1);
  if (known === undefined || !Number.isSafeInteger(values)) return undefined;
  const { blockValues, blockBytes } = known;
  return (dimensions[0] ?? 0) % blockValues === 0 ? (values / blockValues) * blockBytes : undefined;
}
