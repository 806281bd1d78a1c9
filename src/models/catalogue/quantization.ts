/** The forms of few bits that the weights of Whisper can have: their names, and the ids of models in such a form. */

export const QUANTIZATIONS = ['q8_0', 'q5_1', 'q5_0', 'q4_1', 'q4_0'] as const;
export type Quantization = (typeof QUANTIZATIONS)[number];

/** The version of models/convert/quantize-whisper.ts. It is raised whenever the same weights would give another file. */
export const QUANTIZER_VERSION = 1;

export function isQuantization(value: string): value is Quantization {
  return QUANTIZATIONS.some((name) => name === value);
}

/** True for the full weights of Whisper. The kernels of the other families take the weights as they were published. */
export function canBeQuantized({ family, id }: { readonly family: string; readonly id: string }) {
  return family === 'whisper' && splitQuantizedId(id) === undefined;
}

export function quantizedId(base: string, type: Quantization): string {
  return `${base}-${type}`;
}

/** The opposite of `quantizedId`; undefined for the id of full weights. */
export function splitQuantizedId(
  id: string,
): { readonly base: string; readonly type: Quantization } | undefined {
  const [, base, type] = /^(.+)-(q\d_\d)$/.exec(id) ?? [];
  if (base === undefined || type === undefined || !isQuantization(type)) return undefined;
  return { base, type };
}
