/** A GGUF file of a family that runs here: its index is checked, then it is taken as it is. */
import { rename } from 'node:fs/promises';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import type { TaskKind } from '../../runtime/engine.ts';
import { type ByteSource, FileBytes, invalidFile } from '../files/byte-source.ts';
import { type GgufIndex, readGgufIndex } from '../files/gguf-reader.ts';
import type { ConversionInput } from './converter.ts';
import { SILERO_TENSORS } from './silero-vad.ts';

const GGUF_FILE = 'gguf';

export interface GgufFamily {
  readonly family: string;
  readonly task: TaskKind;
  readonly languages: readonly string[];
  readonly description: string;
}

const FAMILIES: readonly GgufFamily[] = [
  { family: 'moonshine', task: 'asr', languages: ['en'], description: 'Moonshine, imported' },
  { family: 'silero-vad', task: 'vad', languages: [], description: 'Silero VAD, imported' },
];

/** A few tensors by which a file of the family is known; native code checks them all. */
const MOONSHINE_TENSORS = [
  'encoder.conv1.weight',
  'encoder.norm.weight',
  'decoder.norm.weight',
  'decoder.token_embedding.weight',
];

/** Moves the file, which is the import's own, and takes it for what it is. */
export const ggufConverter = {
  version: 1,
  file: 'model.gguf',
  write: async (input: ConversionInput, target: string) => {
    const file = input.locate(GGUF_FILE);
    const sha256 = await sha256OfFile(file);
    const bytes = await sizeOf(file);
    await rename(file, target);
    return { bytes, sha256 };
  },
} as const;

async function sizeOf(file: string): Promise<number> {
  await using source = await FileBytes.open(file, GGUF_FILE);
  await readGgufFamily(source);
  return source.bytes;
}

/** @throws {WavepoolError} MODEL_FILE_INVALID for another family, or half a file */
export async function readGgufFamily(source: ByteSource): Promise<GgufFamily> {
  const index = await readGgufIndex(source);
  const architecture = index.strings.get('general.architecture');
  const family = FAMILIES.find((each) => each.family === architecture);
  if (family === undefined) {
    const named =
      architecture === undefined
        ? 'names no architecture'
        : `is for ${JSON.stringify(architecture)}`;
    throw invalidFile(
      source.name,
      `${named}; here run ${FAMILIES.map((each) => each.family).join(' and ')}`,
    );
  }
  checkTensors(index, family.family, source.name);
  return family;
}

function checkTensors({ tensors }: GgufIndex, family: string, file: string): void {
  if (family === 'silero-vad') {
    for (const { name, shape } of SILERO_TENSORS) {
      const found = tensors.get(name)?.dimensions.toReversed().join();
      if (found !== shape.join())
        throw invalidFile(file, `${name} is missing or has another shape`);
    }
    return;
  }
  const missing = MOONSHINE_TENSORS.find((name) => !tensors.has(name));
  if (missing !== undefined) throw invalidFile(file, `has no tensor ${missing}`);
}
