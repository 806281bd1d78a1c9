/**
 * Lays out the segments of a transcript as subtitle cues: short lines, at most two a cue, times in whole milliseconds that
 * never overlap and never run backwards. Lengths count what a reader sees as one character (grapheme clusters).
 */

/** One piece of speech; times in seconds from the start of the audio. */
export interface TimedText {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

export interface Cue {
  readonly startMs: number;
  readonly endMs: number;
  /** One or two lines, without line breaks inside. */
  readonly lines: readonly string[];
}

export const MAX_LINE_CHARACTERS = 42;
const MAX_LINES = 2;

const SENTENCE_END = /[.!?…。！？]["'”’)\]]*$/u;
const CLAUSE_END = /[,;:，、；：–—]["'”’)\]]*$/u;
const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

interface Word {
  readonly text: string;
  readonly length: number;
  /** False for the continuation of a word that is longer than a line. */
  readonly spaceBefore: boolean;
}

export function layOutCues(segments: readonly TimedText[]): Cue[] {
  const inOrder = segments.toSorted((a, b) => a.start - b.start);
  return withoutOverlap(inOrder.flatMap(cuesOf));
}

function cuesOf(segment: TimedText): Cue[] {
  const groups = groupWords(wordsOf(segment.text));
  const total = groups.reduce((sum, words) => sum + lengthOf(words), 0);
  const startMs = Math.max(0, segment.start * 1000);
  const durationMs = Math.max(0, segment.end * 1000 - startMs);
  let before = 0;
  return groups.map((words) => {
    const from = startMs + (durationMs * before) / total;
    before += lengthOf(words);
    const to = startMs + (durationMs * before) / total;
    return { startMs: Math.round(from), endMs: Math.round(to), lines: linesOf(words) };
  });
}

/** Every cue lasts at least 1 ms (WebVTT asks for it); an overlap is taken from the earlier cue where it can give. */
function withoutOverlap(cues: readonly Cue[]): Cue[] {
  const laid: Cue[] = [];
  for (const cue of cues) {
    const previous = laid.at(-1);
    let { startMs } = cue;
    if (previous !== undefined && previous.endMs > startMs) {
      const endMs = Math.max(previous.startMs + 1, startMs);
      laid[laid.length - 1] = { ...previous, endMs };
      startMs = endMs;
    }
    laid.push({ startMs, endMs: Math.max(cue.endMs, startMs + 1), lines: cue.lines });
  }
  return laid;
}

function wordsOf(text: string): Word[] {
  return text
    .split(/\s+/u)
    .filter((word) => word !== '')
    .flatMap((word) => {
      const characters = Array.from(GRAPHEMES.segment(word), ({ segment }) => segment);
      const pieces: Word[] = [];
      for (let at = 0; at < characters.length; at += MAX_LINE_CHARACTERS) {
        const piece = characters.slice(at, at + MAX_LINE_CHARACTERS);
        pieces.push({ text: piece.join(''), length: piece.length, spaceBefore: at === 0 });
      }
      return pieces;
    });
}

/** Whole sentences stay together while they fit in one cue; a sentence too long for one is cut at a clause or word. */
function groupWords(words: readonly Word[]): Word[][] {
  const groups: Word[][] = [];
  let current: Word[] = [];
  for (const sentence of sentencesOf(words)) {
    if (fits([...current, ...sentence])) {
      current.push(...sentence);
      continue;
    }
    if (current.length > 0) groups.push(current);
    const pieces = cutSentence(sentence);
    current = pieces.pop() ?? [];
    groups.push(...pieces);
  }
  if (current.length > 0) groups.push(current);
  return groups;
}

function sentencesOf(words: readonly Word[]): Word[][] {
  const sentences: Word[][] = [[]];
  for (const word of words) {
    sentences.at(-1)?.push(word);
    if (SENTENCE_END.test(word.text)) sentences.push([]);
  }
  return sentences.filter((sentence) => sentence.length > 0);
}

/** Pieces that each fit in one cue, of about the same length rather than one full cue and a stray word. */
function cutSentence(words: readonly Word[]): Word[][] {
  const pieces: Word[][] = [];
  let rest = words;
  while (!fits(rest)) {
    const cues = Math.ceil(lengthOf(rest) / (MAX_LINES * MAX_LINE_CHARACTERS));
    const cut = cutPoint(rest, lengthOf(rest) / Math.max(cues, 2));
    pieces.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  return rest.length > 0 ? [...pieces, [...rest]] : pieces;
}

/** How many words the next cue takes: near `target` characters, rather after a clause, always as many as fit. */
function cutPoint(words: readonly Word[], target: number): number {
  const clauseBonus = MAX_LINE_CHARACTERS / 2;
  let best = 1;
  let bestCost = Number.POSITIVE_INFINITY;
  for (let count = 1; count < words.length && fits(words.slice(0, count)); count += 1) {
    const distance = Math.abs(lengthOf(words.slice(0, count)) - target);
    const cost = distance - (CLAUSE_END.test(words[count - 1]?.text ?? '') ? clauseBonus : 0);
    if (cost <= bestCost) [best, bestCost] = [count, cost];
  }
  return best;
}

function fits(words: readonly Word[]): boolean {
  return lengthOf(words) <= MAX_LINE_CHARACTERS || balancedBreak(words) !== undefined;
}

/** The line break that makes the longer of two lines shortest; undefined when two lines do not hold the words. */
function balancedBreak(words: readonly Word[]): number | undefined {
  if (lengthOf(words) > MAX_LINES * MAX_LINE_CHARACTERS + 1) return undefined;
  let best: number | undefined;
  let bestLength = MAX_LINE_CHARACTERS + 1;
  for (let at = 1; at < words.length; at += 1) {
    const longer = Math.max(lengthOf(words.slice(0, at)), lengthOf(words.slice(at)));
    if (longer < bestLength) [best, bestLength] = [at, longer];
  }
  return best;
}

function linesOf(words: readonly Word[]): string[] {
  if (lengthOf(words) <= MAX_LINE_CHARACTERS) return [joined(words)];
  const at = balancedBreak(words) ?? words.length;
  return [joined(words.slice(0, at)), joined(words.slice(at))];
}

function joined(words: readonly Word[]): string {
  return words
    .map((word, at) => (at > 0 && word.spaceBefore ? ` ${word.text}` : word.text))
    .join('');
}

function lengthOf(words: readonly Word[]): number {
  return words.reduce(
    (sum, word, at) => sum + word.length + (at > 0 && word.spaceBefore ? 1 : 0),
    0,
  );
}
