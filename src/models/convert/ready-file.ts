/** Published files that are weights already, as GGUF or ggml: they are checked, then taken as they are. */
import { rename } from 'node:fs/promises';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import type { ModelDescription } from '../catalogue/catalogue-entry.ts';
import { type ByteSource, FileBytes, invalidFile } from '../files/byte-source.ts';
import type { WrittenFile } from '../files/file-writer.ts';
import { readWhisperFile } from '../files/ggml-whisper-file.ts';
import { type GgufIndex, readGgufIndex } from '../files/gguf-reader.ts';
import type { ConversionInput, FileConverter } from './converter.ts';
import { SILERO_TENSORS } from './silero-vad.ts';

export const WHISPER_FILE = 'ggml.bin';
export const GGUF_FILE = 'gguf';

export const whisperFileConverter: FileConverter = {
  file: 'model.bin',
  write: (input, target) => takeFile(input, WHISPER_FILE, readWhisperFile, target),
};

export const ggufConverter: FileConverter = {
  file: 'model.gguf',
  write: (input, target) => takeFile(input, GGUF_FILE, readGgufFamily, target),
};

/** Moves the file, which belongs to the pull or import that asks. */
async function takeFile(
  input: ConversionInput,
  name: string,
  check: (source: ByteSource) => Promise<unknown>,
  target: string,
): Promise<WrittenFile> {
  const file = input.locate(name);
  await using source = await FileBytes.open(file, name);
  await check(source);
  const sha256 = await sha256OfFile(file);
  await rename(file, target);
  return { bytes: source.bytes, sha256 };
}

type GgufFamily = Pick<ModelDescription, 'family' | 'task' | 'languages' | 'description'>;

const FAMILIES: readonly GgufFamily[] = [
  { family: 'moonshine', task: 'asr', languages: ['en'], description: 'Moonshine, imported' },
  { family: 'silero-vad', task: 'vad', languages: [], description: 'Silero VAD, imported' },
];

/** A few tensors by which a file of Moonshine is known; native code checks them all. */
const MOONSHINE_TENSORS = [
  'encoder.conv1.weight',
  'encoder.norm.weight',
  'decoder.norm.weight',
  'decoder.token_embedding.weight',
];

/**
 * Tells which of the families that run here a GGUF file is for.
 * @throws {WavepoolError} MODEL_FILE_INVALID for another family, or half a file
 */
export async function readGgufFamily(source: ByteSource): Promise<GgufFamily> {
  const index = await readGgufIndex(source);
  const architecture = index.strings.get('general.architecture');
  const family = FAMILIES.find((each) => each.family === architecture);
  if (family === undefined) {
    const named =
      architecture === undefined
        ? 'names no architecture'
        : `is for ${JSON.stringify(architecture)}`;
    const known = FAMILIES.map((each) => each.family).join(' and ');
    throw invalidFile(source.name, `${named}; here run ${known}`);
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
