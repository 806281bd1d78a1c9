/** A ggml Whisper file as it was published: checked, then taken as it is. */
import { rename } from 'node:fs/promises';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import { FileBytes } from '../files/byte-source.ts';
import type { WrittenFile } from '../files/file-writer.ts';
import { readWhisperFile } from '../files/ggml-whisper-file.ts';
import type { ConversionInput, FileConverter } from './converter.ts';

export const WHISPER_FILE = 'ggml.bin';

export const whisperFileConverter: FileConverter = { version: 1, file: 'model.bin', write: take };

/** Moves the file, which is the pull's own. */
async function take(input: ConversionInput, target: string): Promise<WrittenFile> {
  const file = input.locate(WHISPER_FILE);
  const bytes = await checkedBytes(file);
  const sha256 = await sha256OfFile(file);
  await rename(file, target);
  return { bytes, sha256 };
}

/** @throws {WavepoolError} MODEL_FILE_INVALID */
async function checkedBytes(file: string): Promise<number> {
  await using source = await FileBytes.open(file, WHISPER_FILE);
  await readWhisperFile(source);
  return source.bytes;
}
