/** A file of audio while it is being decoded, whoever decodes it. */
import { WavepoolError } from '../../core/errors.ts';
import type { RawAudioFormat } from '../../core/job/job.ts';
import { type Audio, type AudioWarning, SAMPLE_RATE } from '../../runtime/engine.ts';

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

/**
 * Makes the reader fail with INPUT_TOO_LARGE when more than so much audio has come out of it. Silence compresses to almost
 * nothing, so a small file may hold years. Only decoding tells how long an input is: its header is not believed.
 * @param maxSeconds 0 = no limit
 */
export function limitDuration(reader: InputReader, maxSeconds: number): InputReader {
  if (maxSeconds === 0) return reader;
  const { audio } = reader;
  const limit = maxSeconds * SAMPLE_RATE;
  return {
    audio,
    get warnings() {
      return reader.warnings;
    },
    decodeUntil: async (sample, signal) => {
      // One sample more than is allowed tells; the rest need not be decoded.
      await reader.decodeUntil(Math.min(sample, limit + 1), signal);
      if (audio.endSample > limit)
        throw new WavepoolError('INPUT_TOO_LARGE', `more than ${hours(maxSeconds)} of audio`);
    },
    close: () => reader.close(),
  };
}

function hours(seconds: number): string {
  return `${Math.round(seconds / 36) / 100} hours`;
}
