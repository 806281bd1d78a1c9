/** The code behind the names of the catalogue's converters. */
import path from 'node:path';
import type { ConverterName, ConverterVersion } from '../catalogue/catalogue-entry.ts';
import type { WrittenFile } from '../files/file-writer.ts';
import { writeGguf } from '../files/gguf-writer.ts';
import type { WeightsFile } from '../installed/model-record.ts';
import type { ConversionInput, Converter } from './converter.ts';
import { moonshineConverter } from './moonshine.ts';
import { ggufConverter, whisperFileConverter } from './ready-file.ts';
import { sileroSafetensorsConverter, sileroVadConverter } from './silero-vad.ts';
import { whisperConverter } from './whisper.ts';

const CONVERTERS: Readonly<Record<ConverterName, Converter>> = {
  'moonshine-onnx': moonshineConverter,
  'silero-onnx': sileroVadConverter,
  'silero-safetensors': sileroSafetensorsConverter,
  'whisper-ctranslate2': whisperConverter,
  'whisper-ggml': whisperFileConverter,
  gguf: ggufConverter,
};

export interface ConvertedFile {
  readonly path: string;
  readonly weights: WrittenFile;
  readonly converterVersion: number;
  /** Absent for `model.gguf`, as in the record of an installed model. */
  readonly file?: WeightsFile;
}

/**
 * Converts into a new file in the folder.
 * @throws {WavepoolError} MODEL_FILE_INVALID
 */
export async function convert(
  { name, version }: ConverterVersion,
  input: ConversionInput,
  folder: string,
): Promise<ConvertedFile> {
  const converter = CONVERTERS[name];
  const isFile = 'write' in converter;
  const target = path.join(folder, isFile ? 'converted.bin' : 'converted.gguf');
  const weights = isFile
    ? await converter.write(input, target)
    : await writeGguf(target, await converter.convert(input));
  const file = isFile && converter.file !== 'model.gguf' ? { file: converter.file } : {};
  return { path: target, weights, converterVersion: version, ...file };
}
