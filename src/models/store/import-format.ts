/** Finds out by content which of the formats that are understood here lies in a folder. */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import {
  type ConverterVersion,
  converterVersion,
  type ModelDescription,
} from '../catalogue/catalogue-entry.ts';
import {
  DECODER_FILE,
  ENCODER_FILE,
  TOKENIZER_FILE as MOONSHINE_TOKENS,
} from '../convert/moonshine.ts';
import { GGUF_FILE, readGgufFamily, WHISPER_FILE } from '../convert/ready-file.ts';
import { SILERO_FILE } from '../convert/silero-vad.ts';
import { CTRANSLATE2_FILE, TOKENIZER_FILE } from '../convert/whisper.ts';
import { FileBytes, invalidFile } from '../files/byte-source.ts';
import { isCTranslate2File, readCTranslate2 } from '../files/ctranslate2-reader.ts';
import { isGgmlFile, readWhisperFile } from '../files/ggml-whisper-file.ts';
import { isGgufFile } from '../files/gguf-reader.ts';
import { isSafetensorsFile } from '../files/safetensors-reader.ts';
import { isMultilingual } from '../files/whisper-layout.ts';

export interface FoundFormat
  extends Pick<ModelDescription, 'family' | 'task' | 'languages' | 'description'> {
  readonly converter: ConverterVersion;
  /** The names in the folder, by the names that the converter asks for. */
  readonly files: ReadonlyMap<string, string>;
}

const START_BYTES = 96;

/** For each file that the converter asks for, the names that exports of Moonshine have given it. */
const MOONSHINE_NAMES: Readonly<Record<string, readonly string[]>> = {
  [ENCODER_FILE]: [
    'encoder_model.onnx',
    'encoder_model_quantized.onnx',
    'encoder_model_int8.onnx',
    ENCODER_FILE,
  ],
  [DECODER_FILE]: [
    'decoder_model_merged.onnx',
    'decoder_model_merged_quantized.onnx',
    'decoder_model_merged_int8.onnx',
    DECODER_FILE,
  ],
  [MOONSHINE_TOKENS]: ['tokens.txt', 'llama-tokenizer.js', MOONSHINE_TOKENS],
};

/**
 * Tells the format, and which files of the folder belong to it.
 * @param folder the files of one model, and what else may lie beside them
 * @throws {WavepoolError} MODEL_FILE_INVALID when there is nothing that is understood
 */
export async function findFormat(folder: string): Promise<FoundFormat> {
  const names = await readdir(folder);
  const moonshine = moonshineFiles(names);
  if (moonshine !== undefined) return { ...MOONSHINE, files: moonshine };
  const found: FoundFormat[] = [];
  for (const name of names) {
    const format = await formatOf(path.join(folder, name), name, names);
    if (format !== undefined) found.push(format);
  }
  const [only, ...more] = found;
  if (only !== undefined && more.length === 0) return only;
  const shown = names.slice(0, 8).join(', ') || 'an empty folder';
  throw invalidFile(
    shown,
    only === undefined
      ? 'no model that is understood here: GGUF, a ggml Whisper file, a CTranslate2 folder of Whisper, the two ONNX files of Moonshine with its tokens, or Silero VAD as ONNX or Safetensors'
      : 'holds several models; import one of the files',
  );
}

const MOONSHINE = {
  family: 'moonshine',
  task: 'asr',
  languages: ['en'],
  description: 'Moonshine tiny, imported',
  converter: converterVersion('moonshine-onnx'),
} as const;

function moonshineFiles(names: readonly string[]): ReadonlyMap<string, string> | undefined {
  const files = new Map<string, string>();
  for (const [wanted, candidates] of Object.entries(MOONSHINE_NAMES)) {
    const name = candidates.find((candidate) => names.includes(candidate));
    if (name === undefined) return undefined;
    files.set(wanted, name);
  }
  return files;
}

async function formatOf(
  file: string,
  name: string,
  names: readonly string[],
): Promise<FoundFormat | undefined> {
  await using source = await FileBytes.open(file, name);
  const start = await source.read(0, Math.min(source.bytes, START_BYTES));
  if (isGgufFile(start)) {
    const family = await readGgufFamily(source);
    return { ...family, converter: converterVersion('gguf'), files: new Map([[GGUF_FILE, name]]) };
  }
  if (isGgmlFile(start)) {
    const { header } = await readWhisperFile(source);
    const files = new Map([[WHISPER_FILE, name]]);
    return {
      ...whisperOf(isMultilingual(header.dimensions)),
      converter: converterVersion('whisper-ggml'),
      files,
    };
  }
  if (isCTranslate2File(start)) {
    if (!names.includes('tokenizer.json')) {
      throw invalidFile(
        name,
        'is a CTranslate2 model; import its folder, with tokenizer.json in it',
      );
    }
    const [vocabulary = 0] =
      (await readCTranslate2(source)).variables.get('decoder/embeddings/weight')?.shape ?? [];
    const files = new Map([
      [CTRANSLATE2_FILE, name],
      [TOKENIZER_FILE, 'tokenizer.json'],
    ]);
    return {
      ...whisperOf(isMultilingual({ vocabulary })),
      converter: converterVersion('whisper-ctranslate2'),
      files,
    };
  }
  const isOnnx = name.endsWith('.onnx');
  if (!isOnnx && !isSafetensorsFile(start)) return undefined;
  return {
    family: 'silero-vad',
    task: 'vad',
    languages: [],
    description: 'Silero VAD, imported',
    converter: converterVersion(isOnnx ? 'silero-onnx' : 'silero-safetensors'),
    files: new Map([[SILERO_FILE, name]]),
  };
}

function whisperOf(multilingual: boolean) {
  return {
    family: 'whisper',
    task: 'asr',
    languages: [multilingual ? 'mul' : 'en'],
    description: `Whisper, ${multilingual ? 'multilingual' : 'English'}, imported`,
  } as const;
}
