import { WavepoolError } from '../../core/errors.ts';
import type { PcmSamples } from '../../runtime/engine.ts';

export interface PcmEncoding {
  /** @defaultValue 's16le' */
  readonly sampleFormat?: 's16le' | 'f32le' | undefined;
  /** @defaultValue 1 */
  readonly channels?: number | undefined;
}

const SAMPLES = { s16le: Int16Array, f32le: Float32Array } as const;

/**
 * Turns the bytes of a pipe, a socket or a request body into samples. Each piece holds whole frames, wherever the bytes were
 * cut.
 * @throws {WavepoolError} INPUT_UNDECODABLE when the bytes end within a frame.
 */
export async function* readPcm(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { sampleFormat = 's16le', channels = 1 }: PcmEncoding = {},
): AsyncGenerator<PcmSamples> {
  const Samples = SAMPLES[sampleFormat];
  const frameBytes = Samples.BYTES_PER_ELEMENT * channels;
  let rest = new Uint8Array();
  for await (const bytes of source) {
    // The bytes are copied, because samples must lie at a multiple of their size.
    const joined = new Uint8Array(rest.length + bytes.length);
    joined.set(rest);
    joined.set(bytes, rest.length);
    const whole = joined.length - (joined.length % frameBytes);
    rest = joined.slice(whole);
    if (whole > 0) yield new Samples(joined.buffer, 0, whole / Samples.BYTES_PER_ELEMENT);
  }
  if (rest.length > 0) throw new WavepoolError('INPUT_UNDECODABLE', 'the PCM ends within a frame');
}
