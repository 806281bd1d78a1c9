/** IEEE half precision as bit patterns, converted as processors do: to nearest, ties to even. */

const FLOAT = new Float32Array(1);
const BITS = new Uint32Array(FLOAT.buffer);

let table: Float32Array | undefined;

/** All 65,536 values by their bit patterns. */
export function halfValues(): Float32Array {
  table ??= Float32Array.from({ length: 0x1_00_00 }, (_, bits) => halfValue(bits));
  return table;
}

function halfValue(bits: number): number {
  const sign = bits & 0x80_00 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3_ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export function halfBits(value: number): number {
  FLOAT[0] = value;
  const bits = BITS[0] ?? 0;
  const sign = (bits >>> 16) & 0x80_00;
  const magnitude = bits & 0x7f_ff_ff_ff;
  if (magnitude > 0x7f_80_00_00) return sign | 0x7e_00;
  // From 65,520 on, the nearest half is infinity.
  if (magnitude >= 0x47_7f_f0_00) return sign | 0x7c_00;
  if (magnitude < 0x38_80_00_00) return sign | subnormalBits(magnitude);
  const rebased = magnitude - 0x38_00_00_00;
  return sign | ((rebased + 0xf_ff + ((rebased >>> 13) & 1)) >>> 13);
}

/** Magnitudes below 2⁻¹⁴ are stored as multiples of 2⁻²⁴. */
function subnormalBits(magnitude: number): number {
  FLOAT[0] = 0;
  BITS[0] = magnitude;
  const scaled = (FLOAT[0] ?? 0) * 2 ** 24;
  const below = Math.floor(scaled);
  const rest = scaled - below;
  const up = rest > 0.5 || (rest === 0.5 && below % 2 === 1);
  return up ? below + 1 : below;
}
