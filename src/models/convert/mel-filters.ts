/**
 * The mel filters that Whisper was trained with: triangles on Slaney's scale, equal in area, for a 400-point transform at
 * 16 kHz. To the bit those of librosa, which computes in double precision and keeps singles.
 */

const SAMPLE_RATE = 16_000;
const TRANSFORM = 400;
const BINS = TRANSFORM / 2 + 1;

/** Hz per mel below the corner, and where the scale becomes logarithmic. */
const LINEAR_STEP = 200 / 3;
const CORNER_HZ = 1_000;
const CORNER_MEL = CORNER_HZ / LINEAR_STEP;
const LOGARITHMIC_STEP = Math.log(6.4) / 27;

/** `mels` rows of 201 values. */
export function melFilters(mels: number): Float32Array {
  const top = melOf(SAMPLE_RATE / 2);
  const step = top / (mels + 1);
  const edges = Array.from({ length: mels + 2 }, (_, at) =>
    hertzOf(at === mels + 1 ? top : at * step),
  );
  const filters = new Float32Array(mels * BINS);
  for (let mel = 0; mel < mels; mel++) {
    const [left = 0, center = 0, right = 0] = edges.slice(mel, mel + 3);
    const area = 2 / (right - left);
    for (let bin = 0; bin < BINS; bin++) {
      const hertz = (bin * SAMPLE_RATE) / TRANSFORM;
      const rising = (hertz - left) / (center - left);
      const falling = (right - hertz) / (right - center);
      const height = Math.fround(Math.max(0, Math.min(rising, falling)));
      filters[mel * BINS + bin] = height * area;
    }
  }
  return filters;
}

function melOf(hertz: number): number {
  if (hertz < CORNER_HZ) return hertz / LINEAR_STEP;
  return CORNER_MEL + Math.log(hertz / CORNER_HZ) / LOGARITHMIC_STEP;
}

function hertzOf(mel: number): number {
  if (mel < CORNER_MEL) return LINEAR_STEP * mel;
  return CORNER_HZ * Math.exp(LOGARITHMIC_STEP * (mel - CORNER_MEL));
}
