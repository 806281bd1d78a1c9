/** The words of a piece of speech as subtitles lay them out: what a reader sees, and when it is said. Pure. */

/** One word, as a recognizer timed it; seconds from the start of the audio. */
export interface SpokenWord {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** One piece of speech; times in seconds from the start of the audio. */
export interface TimedText {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly speaker?: string | undefined;
  /** Where their times are known; they make up the text, white space aside. */
  readonly words?: readonly SpokenWord[] | undefined;
}

export interface CueWord {
  readonly text: string;
  /** In characters as a reader sees them (grapheme clusters). */
  readonly length: number;
  /** False for the continuation of a word that is longer than a line. */
  readonly spaceBefore: boolean;
  /** Milliseconds, not rounded. */
  readonly startMs: number;
  readonly endMs: number;
}

export interface CueWords {
  readonly words: readonly CueWord[];
  /** Whether a recognizer told their times; else they share the time of the whole by their lengths. */
  readonly timed: boolean;
}

export const MAX_LINE_CHARACTERS = 42;

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** When a stretch of the text, white space left out, is said. */
type Clock = (from: number, to: number) => { readonly startMs: number; readonly endMs: number };

export function charactersOf(text: string): string[] {
  return Array.from(GRAPHEMES.segment(text), ({ segment }) => segment);
}

export function cueWordsOf(segment: TimedText): CueWords {
  const known = knownClock(segment);
  const clock = known ?? sharedClock(segment);
  let at = 0;
  const words = piecesOf(segment.text).map((piece) => {
    const from = at;
    at += piece.text.length;
    return { ...piece, ...clock(from, at) };
  });
  return { words, timed: known !== undefined };
}

/** Words, those longer than a line in pieces. */
function piecesOf(text: string): Pick<CueWord, 'text' | 'length' | 'spaceBefore'>[] {
  return text
    .split(/\s+/u)
    .filter((word) => word !== '')
    .flatMap((word) => {
      const characters = charactersOf(word);
      const pieces = [];
      for (let at = 0; at < characters.length; at += MAX_LINE_CHARACTERS) {
        const piece = characters.slice(at, at + MAX_LINE_CHARACTERS);
        pieces.push({ text: piece.join(''), length: piece.length, spaceBefore: at === 0 });
      }
      return pieces;
    });
}

/** Every character takes the same part of the whole. */
function sharedClock({ start, end, text }: TimedText): Clock {
  const total = Math.max(1, compact(text).length);
  const startMs = Math.max(0, start * 1_000);
  const durationMs = Math.max(0, end * 1_000 - startMs);
  const at = (character: number) => startMs + (durationMs * character) / total;
  return (from, to) => ({ startMs: at(from), endMs: at(to) });
}

/** Undefined where there are no times of words, or the words are not those of the text. */
function knownClock({ text, words = [] }: TimedText): Clock | undefined {
  const texts = words.map((word) => compact(word.text));
  if (words.length === 0 || texts.join('') !== compact(text)) return undefined;
  let at = 0;
  const spans = words.map(({ start, end }, index) => {
    const from = at;
    at += texts[index]?.length ?? 0;
    const startMs = Math.max(0, start * 1_000);
    return { from, to: at, startMs, endMs: Math.max(startMs, end * 1_000) };
  });
  const timeOf = (character: number, inside: number): number => {
    const span = spans.find(({ from, to }) => inside >= from && inside < to);
    if (span === undefined) return 0;
    const part = (character - span.from) / (span.to - span.from);
    return span.startMs + part * (span.endMs - span.startMs);
  };
  return (from, to) => ({ startMs: timeOf(from, from), endMs: timeOf(to, to - 1) });
}

function compact(text: string): string {
  return text.replace(/\s+/gu, '');
}
