/** One stream of the procedure: an item, fed piece by piece as a live input would come. */
import { WavepoolError } from '../../core/errors.ts';
import type { Audio, TaskResult, TaskStream } from '../../runtime/engine.ts';
import type { StreamLease } from '../../runtime/models/stream-lease.ts';

/** Lengths of the pieces in samples, in turn; each stream begins at another one. None is a multiple of a window. */
const PIECES: readonly number[] = [1_600, 333, 4_000, 800, 2_457];

export interface StreamInput {
  readonly audio: Audio;
  readonly startSample: number;
  readonly endSample: number;
  /** Which of the lengths comes first. */
  readonly turn: number;
  /** Ends the stream in its midst, as a client does that goes away. */
  readonly abandon: boolean;
}

/** What the stream said, piece by piece; nothing of one that was abandoned. The slot is free when this resolves. */
export async function runStream(lease: StreamLease, input: StreamInput): Promise<TaskResult[]> {
  const stream = await lease.pool.startStream(lease.slot, {});
  try {
    return input.abandon ? await abandoned(stream, input) : await whole(stream, input);
  } finally {
    // What has ended is reset already.
    await stream.reset();
  }
}

async function whole(stream: TaskStream, input: StreamInput): Promise<TaskResult[]> {
  const results = await push(stream, input, input.endSample);
  return [...results, await stream.finish()];
}

async function abandoned(stream: TaskStream, input: StreamInput): Promise<TaskResult[]> {
  const { startSample, endSample } = input;
  await push(stream, input, startSample + Math.floor((endSample - startSample) / 2));
  await stream.reset();
  throw new WavepoolError('CANCELLED', 'the stream was abandoned');
}

async function push(stream: TaskStream, input: StreamInput, endSample: number) {
  const { audio, turn } = input;
  const results: TaskResult[] = [];
  let at = input.startSample;
  for (let piece = turn; at < endSample; piece += 1) {
    const end = Math.min(endSample, at + (PIECES[piece % PIECES.length] ?? 1));
    const result = await stream.push({ audio, startSample: at, endSample: end });
    if (result) results.push(result);
    at = end;
  }
  return results;
}
