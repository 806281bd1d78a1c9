/**
 * An end to inputs that hold more audio than anybody means to send: silence compresses to almost nothing, so a small
 * file may hold years. How long an input is, only decoding tells: what its header says is not believed.
 */
import { WavepoolError } from '../../core/errors.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';
import type { InputReader } from './input-reader.ts';

/**
 * The reader, which fails with INPUT_TOO_LARGE when more than so much audio has come out of it.
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
