/** Which of the formats that are understood lies in a folder, told by content. */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { TaskKind } from '../../runtime/engine.ts';
import type { Converter } from '../convert/converter.ts';
import { ggufConverter, readGgufFamily } from '../convert/gguf-file.ts';
import {
  DECODER_FILE,
  ENCODER_FILE,
  TOKENIZER_FILE as MOONSHINE_TOKENS,
  moonshineConverter,
} from '../convert/moonshine.ts';
import {
  SILERO_FILE,
  sileroSafetensorsConverter,
  sileroVadConverter,
} from '../convert/silero-vad.ts';
import { CTRANSLATE2_FILE, TOKENIZER_FILE, whisperConverter } from '../convert/whisper.ts';
import { WHISPER_FILE, whisperFileConverter } from '../convert/whisper-file.ts';
import { FileBytes, invalidFile } from '../files/byte-source.ts';
import { isCTranslate2File, readCTranslate2 } from '../files/ctranslate2-reader.ts';
import { isGgmlFile, readWhisperFile } from '../files/ggml-whisper-file.ts';
import { isGgufFile } from '../files/gguf-reader.ts';
import { isSafetensorsFile } from '../files/safetensors-reader.ts';
import { isMultilingual } from '../files/whisper-layout.ts';

export interface FoundFormat {
  readonly family: string;
  readonly task: TaskKind;
  readonly languages: readonly string[];
  readonly description: string;
  readonly converter: Converter;
  /** Names in the folder, by those that the converter asks for. */
  readonly files: ReadonlyMap<string, string>;
}

const GGUF_FILE = 'gguf';
const START_BYTES = 96;

/** Names that exports of Moonshine have had. */
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
  converter: moonshineConverter,
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
    return { ...family, converter: ggufConverter, files: new Map([[GGUF_FILE, name]]) };
  }
  if (isGgmlFile(start)) {
    const { header } = await readWhisperFile(source);
    const files = new Map([[WHISPER_FILE, name]]);
    return {
      ...whisperOf(isMultilingual(header.dimensions)),
      converter: whisperFileConverter,
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
    return { ...whisperOf(vocabulary > 51_864), converter: whisperConverter, files };
  }
  const isOnnx = name.endsWith('.onnx');
  if (!isOnnx && !isSafetensorsFile(start)) return undefined;
  return {
    family: 'silero-vad',
    task: 'vad',
    languages: [],
    description: 'Silero VAD, imported',
    converter: isOnnx ? sileroVadConverter : sileroSafetensorsConverter,
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
