/** From what was recognized in a stretch of speech to the segments of the transcript. */
import type { TranscriptSegment, TranscriptWord } from '../../core/results/job-result.ts';
import { SAMPLE_RATE, type TimedPiece, type TimedWord } from '../../runtime/engine.ts';
import type { RecognizedSegment } from './pending-segments.ts';
import { toSeconds } from './result-facts.ts';

/** Seconds of the input. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The recognizer's own pieces where it gives them, else the stretch as a whole; nothing where no words were found. Times
 * never leave the stretch and never run backwards: a piece begins where the one before it ends, or later.
 */
export function transcriptSegmentsOf(
  { startSample, endSample, result }: RecognizedSegment,
  speaker: string | undefined,
): TranscriptSegment[] {
  const whole: Span = { start: toSeconds(startSample), end: toSeconds(endSample) };
  const said = speaker === undefined ? {} : { speaker };
  const truncated = result.truncated ? { truncated: true } : {};
  if (result.text === '') return [];
  if (result.pieces.length === 0) return [{ ...whole, text: result.text, ...said, ...truncated }];
  const offset = startSample / SAMPLE_RATE;
  let reached = whole.start;
  return result.pieces.map((piece, at) => {
    const words = wordsOf(piece.words, offset, { start: reached, end: whole.end });
    const own = within(piece, offset, { start: reached, end: whole.end });
    // Words may be timed more exactly than the piece that holds them.
    const span = {
      start: Math.min(own.start, words[0]?.start ?? own.start),
      end: Math.max(own.end, words.at(-1)?.end ?? own.end),
    };
    reached = span.end;
    return {
      ...span,
      text: piece.text,
      ...said,
      ...confidenceOf(piece),
      ...(words.length === 0 ? {} : { words }),
      ...(at === result.pieces.length - 1 ? truncated : {}),
    };
  });
}

function confidenceOf(piece: TimedPiece) {
  return {
    confidence: rounded(Math.exp(Math.min(0, piece.averageLogProbability))),
    noSpeechProbability: probability(piece.noSpeechProbability),
    temperature: rounded(Math.max(0, piece.temperature)),
  };
}

function wordsOf(words: readonly TimedWord[], offset: number, bounds: Span): TranscriptWord[] {
  let reached = bounds.start;
  return words.map((word) => {
    const span = within(word, offset, { start: reached, end: bounds.end });
    reached = span.end;
    return { ...span, text: word.text, confidence: probability(word.probability) };
  });
}

function within({ start, end }: Span, offset: number, bounds: Span): Span {
  const from = clamp(milliseconds(start + offset), bounds.start, bounds.end);
  return { start: from, end: clamp(milliseconds(end + offset), from, bounds.end) };
}

/** A time that is no number counts as the earliest. */
function clamp(value: number, low: number, high: number): number {
  return value >= low ? Math.min(value, high) : low;
}

function milliseconds(seconds: number): number {
  return Math.round(seconds * 1_000) / 1_000;
}

function probability(value: number): number {
  return clamp(rounded(value), 0, 1);
}

/** Four digits are more than a recognizer knows. */
function rounded(value: number): number {
  return Number.isFinite(value) ? Math.round(value * 10_000) / 10_000 : 0;
}
