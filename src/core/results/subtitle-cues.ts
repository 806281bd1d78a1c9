/**
 * Lays out the segments of a transcript as subtitle cues: short lines, at most two a cue, times in whole milliseconds that
 * never overlap and never run backwards. Where the times of words are known, cues begin and end with
 * them and never reach across a pause. Lengths count what a reader sees as one character (grapheme clusters).
 */
import {
  type CueWord,
  charactersOf,
  cueWordsOf,
  MAX_LINE_CHARACTERS,
  type TimedText,
} from './subtitle-words.ts';

export interface Cue {
  /** Whole milliseconds. */
  readonly startMs: number;
  readonly endMs: number;
  /** Undefined where speakers are not told apart. */
  readonly speaker: string | undefined;
  /** One or two lines, without line breaks inside. */
  readonly lines: readonly string[];
  /** Of each line, the speaker's name left out; only where their times are known. */
  readonly timedLines: readonly (readonly CueWord[])[] | undefined;
}

export interface CueOptions {
  /** Where the speaker changes, the text says who it is: `agent: Hello.` @defaultValue false */
  readonly namesSpeakers?: boolean;
  /** Of the audio: no cue is made longer than that. @defaultValue without end */
  readonly durationMs?: number;
}

const MIN_CUE_MS = 1_000;
export const MAX_CUE_MS = 7_000;
/** Characters per second. */
export const MAX_READING_SPEED = 17;
/** Between cues: a reader sees that the text is another. Two frames of film. */
export const CUE_GAP_MS = 80;

/** Shorter cues give nothing for the sake of a gap. */
const SHORTEST_WITH_GAP_MS = 500;

const MAX_LINES = 2;
/** A speaker's name must leave room for words. */
const MAX_LABEL_CHARACTERS = 24;
/** Nobody looks at what was said for longer. */
const LONGEST_PAUSE_MS = 1_500;
/** Slower text without known times is not spread over time: where in it words were said is anybody's guess. */
const SPARSE_CHARACTERS_PER_SECOND = 4;

const SENTENCE_END = /[.!?…。！？]["'”’)\]]*$/u;
/** A period ends these and no sentence. */
const ABBREVIATION =
  /^["'“‘([]*(?:[A-HJ-Z]|Mr|Mrs|Ms|Mx|Dr|Prof|St|Rev|Gen|Col|Capt|Lt|Sgt|Hon|Mt|No|vs)\.$/u;
const CLAUSE_END = /[,;:，、；：–—]["'”’)\]]*$/u;

/** Words that share a cue, which has room for the label. */
interface Group {
  readonly words: readonly CueWord[];
  readonly label: CueWord | undefined;
  readonly speaker: string | undefined;
  readonly timed: boolean;
}

export function layOutCues(
  segments: readonly TimedText[],
  { namesSpeakers = false, durationMs = Number.POSITIVE_INFINITY }: CueOptions = {},
): Cue[] {
  const inOrder = segments.toSorted((a, b) => a.start - b.start);
  const groups = inOrder
    .flatMap((segment) => groupsOf(segment, namesSpeakers))
    .toSorted((a, b) => startOf(a.words) - startOf(b.words));
  return readableTimes(
    groups.map((group, at) => cueOf(group, group.speaker !== groups[at - 1]?.speaker)),
    durationMs,
  );
}

function cueOf({ words, label, speaker, timed }: Group, speakerChanges: boolean): Cue {
  const shown = label !== undefined && speakerChanges ? [label, ...words] : words;
  const lines = linesOf(shown);
  return {
    startMs: Math.round(startOf(words)),
    endMs: Math.round(endOf(words)),
    speaker,
    lines: lines.map(joined),
    timedLines: timed ? lines.map((line) => line.filter((word) => word !== label)) : undefined,
  };
}

function groupsOf(segment: TimedText, namesSpeakers: boolean): Group[] {
  const { words, timed } = cueWordsOf(segment);
  const { speaker } = segment;
  const label = namesSpeakers && speaker !== undefined ? labelOf(speaker) : undefined;
  const seconds = (endOf(words) - startOf(words)) / 1_000;
  const sparse = !timed && lengthOf(words) < SPARSE_CHARACTERS_PER_SECOND * seconds;
  const limits = { label, maxMs: sparse ? Number.POSITIVE_INFINITY : MAX_CUE_MS };
  const runs = timed ? runsOf(words) : [words];
  return runs
    .flatMap((run) => groupWords(run, limits))
    .map((group) => ({ words: group, label, speaker, timed }));
}

function labelOf(speaker: string): CueWord {
  const characters = charactersOf(speaker.replace(/\s+/gu, ' ').trim());
  const short =
    characters.length > MAX_LABEL_CHARACTERS
      ? [...characters.slice(0, MAX_LABEL_CHARACTERS - 1), '…']
      : characters;
  const text = `${short.join('')}:`;
  return { text, length: short.length + 1, spaceBefore: true, startMs: 0, endMs: 0 };
}

/** What is said between two pauses. */
function runsOf(words: readonly CueWord[]): CueWord[][] {
  const runs: CueWord[][] = [];
  let reachedMs = Number.NEGATIVE_INFINITY;
  for (const word of words) {
    if (word.startMs - reachedMs > LONGEST_PAUSE_MS) runs.push([]);
    runs.at(-1)?.push(word);
    reachedMs = word.endMs;
  }
  return runs;
}

interface Limits {
  readonly label: CueWord | undefined;
  readonly maxMs: number;
}

/** Whole sentences stay together while they fit in one cue; a sentence too long for one is cut at a clause or word. */
function groupWords(words: readonly CueWord[], limits: Limits): CueWord[][] {
  const groups: CueWord[][] = [];
  let current: CueWord[] = [];
  for (const sentence of sentencesOf(words)) {
    if (fits([...current, ...sentence], limits)) {
      current.push(...sentence);
      continue;
    }
    if (current.length > 0) groups.push(current);
    const pieces = cutSentence(sentence, limits);
    current = pieces.pop() ?? [];
    groups.push(...pieces);
  }
  if (current.length > 0) groups.push(current);
  return groups;
}

function endsSentence(word: string): boolean {
  return SENTENCE_END.test(word) && !ABBREVIATION.test(word);
}

function sentencesOf(words: readonly CueWord[]): CueWord[][] {
  const sentences: CueWord[][] = [[]];
  for (const word of words) {
    sentences.at(-1)?.push(word);
    if (endsSentence(word.text)) sentences.push([]);
  }
  return sentences.filter((sentence) => sentence.length > 0);
}

/** Pieces that each fit in one cue, of about the same length rather than one full cue and a stray word. */
function cutSentence(words: readonly CueWord[], limits: Limits): CueWord[][] {
  const pieces: CueWord[][] = [];
  let rest = words;
  while (!fits(rest, limits)) {
    const byText = lengthOf(rest) / (MAX_LINES * MAX_LINE_CHARACTERS);
    const byTime = (endOf(rest) - startOf(rest)) / limits.maxMs;
    const cues = Math.max(2, Math.ceil(byText), Math.ceil(byTime));
    const cut = cutPoint(rest, lengthOf(rest) / cues, limits);
    pieces.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  return rest.length > 0 ? [...pieces, [...rest]] : pieces;
}

/** How many words the next cue takes: near `target` characters, rather after a clause, always as many as fit. */
function cutPoint(words: readonly CueWord[], target: number, limits: Limits): number {
  const clauseBonus = MAX_LINE_CHARACTERS / 2;
  let best = 1;
  let bestCost = Number.POSITIVE_INFINITY;
  for (let count = 1; count < words.length && fits(words.slice(0, count), limits); count += 1) {
    const distance = Math.abs(lengthOf(words.slice(0, count)) - target);
    const cost = distance - (CLAUSE_END.test(words[count - 1]?.text ?? '') ? clauseBonus : 0);
    if (cost <= bestCost) [best, bestCost] = [count, cost];
  }
  return best;
}

/** One word always fits: nothing shorter can be shown. */
function fits(words: readonly CueWord[], { label, maxMs }: Limits): boolean {
  if (words.length > 1 && endOf(words) - startOf(words) > maxMs) return false;
  const shown = label === undefined ? words : [label, ...words];
  return lengthOf(shown) <= MAX_LINE_CHARACTERS || balancedBreak(shown) !== undefined;
}

/** The line break that makes the longer of two lines shortest; undefined when two lines do not hold the words. */
function balancedBreak(words: readonly CueWord[]): number | undefined {
  if (lengthOf(words) > MAX_LINES * MAX_LINE_CHARACTERS + 1) return undefined;
  let best: number | undefined;
  let bestLength = MAX_LINE_CHARACTERS + 1;
  for (let at = 1; at < words.length; at += 1) {
    const longer = Math.max(lengthOf(words.slice(0, at)), lengthOf(words.slice(at)));
    if (longer < bestLength) [best, bestLength] = [at, longer];
  }
  return best;
}

function linesOf(words: readonly CueWord[]): CueWord[][] {
  if (lengthOf(words) <= MAX_LINE_CHARACTERS) return [[...words]];
  const at = balancedBreak(words) ?? words.length;
  return [words.slice(0, at), words.slice(at)];
}

function joined(words: readonly CueWord[]): string {
  return words
    .map((word, at) => (at > 0 && word.spaceBefore ? ` ${word.text}` : word.text))
    .join('');
}

function lengthOf(words: readonly CueWord[]): number {
  return words.reduce(
    (sum, word, at) => sum + word.length + (at > 0 && word.spaceBefore ? 1 : 0),
    0,
  );
}

function startOf(words: readonly CueWord[]): number {
  return words[0]?.startMs ?? 0;
}

function endOf(words: readonly CueWord[]): number {
  return words.at(-1)?.endMs ?? 0;
}

/**
 * Cues that never overlap and never run backwards. A cue that is too short to be read goes on into the pause after it; every
 * cue lasts at least 1 ms (WebVTT asks for it). An overlap is taken from the earlier cue where that can give.
 * @param cues in the order of their beginnings
 * @param durationMs of the audio: nothing goes on beyond it
 */
function readableTimes(cues: readonly Cue[], durationMs: number): Cue[] {
  const apart = withoutOverlap(cues);
  return apart.map((cue, at) => {
    const next = apart[at + 1];
    const latest = next === undefined ? Math.floor(durationMs) : next.startMs - CUE_GAP_MS;
    return { ...cue, endMs: readableEnd(cue, latest) };
  });
}

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
    laid.push({ ...cue, startMs, endMs: Math.max(cue.endMs, startMs + 1) });
  }
  return laid;
}

function readableEnd({ startMs, endMs, lines }: Cue, latest: number): number {
  const characters = lines.reduce((sum, line) => sum + charactersOf(line).length, 0);
  const readMs = Math.ceil((1_000 * characters) / MAX_READING_SPEED);
  const wanted = startMs + Math.min(MAX_CUE_MS, Math.max(MIN_CUE_MS, readMs));
  const extended = Math.max(endMs, Math.min(wanted, latest));
  return extended > latest && latest - startMs >= SHORTEST_WITH_GAP_MS ? latest : extended;
}
