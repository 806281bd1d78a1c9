/** One job's input while it is being decoded: in process where native code knows the format, else through ffmpeg. */
import { WavepoolError } from '../../core/errors.ts';
import type { RawAudioFormat } from '../../core/job/job.ts';
import type { Audio, AudioWarning, Engine } from '../../runtime/engine.ts';
import { openWithFfmpeg } from './ffmpeg.ts';

export interface InputReader {
  /** The native handle that task items refer to. */
  readonly audio: Audio;
  /** Everything the user should know about the input, complete once `audio.ended`. */
  readonly warnings: readonly AudioWarning[];
  /** @throws {WavepoolError} INPUT_UNDECODABLE, CANCELLED */
  decodeUntil(sample: number, signal: AbortSignal): Promise<void>;
  /** Frees the samples and ends a child; idempotent. */
  close(): Promise<void>;
}

export interface InputFile {
  readonly path: string;
  /** What the file is declared to be; otherwise its content tells. */
  readonly rawFormat?: RawAudioFormat | undefined;
  /** Counted from 0; without it the mix of all. */
  readonly channel?: number | undefined;
}

/** @throws {WavepoolError} INPUT_NOT_FOUND, INPUT_EMPTY, INPUT_UNDECODABLE, FFMPEG_MISSING */
export async function openInput(
  engine: Engine,
  file: InputFile,
  ffmpegCommand: string,
): Promise<InputReader> {
  const { path, rawFormat, channel } = file;
  if (rawFormat !== undefined) return openWithFfmpeg(engine, file, ffmpegCommand);
  try {
    return nativeReader(await engine.openAudio({ kind: 'file', path, channel }));
  } catch (error) {
    const unknownFormat = error instanceof WavepoolError && error.code === 'INPUT_UNDECODABLE';
    if (!unknownFormat) throw error;
    return openWithFfmpeg(engine, file, ffmpegCommand);
  }
}

function nativeReader(audio: Audio): InputReader {
  return {
    audio,
    get warnings() {
      return audio.warnings;
    },
    decodeUntil: (sample, signal) => audio.decodeUntil(sample, signal),
    close: () => audio.close(),
  };
}
