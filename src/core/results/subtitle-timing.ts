/** When subtitle cues come and go, by the limits that are common for readers. Pure. */
import { charactersOf } from './subtitle-words.ts';

export interface CueTimes {
  /** Whole milliseconds. */
  readonly startMs: number;
  readonly endMs: number;
  readonly lines: readonly string[];
}

export const MIN_CUE_MS = 1_000;
export const MAX_CUE_MS = 7_000;
/** Characters per second. */
export const MAX_READING_SPEED = 17;
/** Between cues: a reader sees that the text is another. Two frames of film. */
export const CUE_GAP_MS = 80;

/** Shorter cues give nothing for the sake of a gap. */
const SHORTEST_WITH_GAP_MS = 500;

/**
 * Cues that never overlap and never run backwards. A cue that is too short to be read goes on into the pause after it; every
 * cue lasts at least 1 ms (WebVTT asks for it). An overlap is taken from the earlier cue where that can give.
 * @param cues in the order of their beginnings
 * @param durationMs of the audio: nothing goes on beyond it
 */
export function readableTimes<Cue extends CueTimes>(
  cues: readonly Cue[],
  durationMs: number,
): Cue[] {
  const apart = withoutOverlap(cues);
  return apart.map((cue, at) => {
    const next = apart[at + 1];
    const latest = next === undefined ? Math.floor(durationMs) : next.startMs - CUE_GAP_MS;
    return { ...cue, endMs: readableEnd(cue, latest) };
  });
}

function withoutOverlap<Cue extends CueTimes>(cues: readonly Cue[]): Cue[] {
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

function readableEnd({ startMs, endMs, lines }: CueTimes, latest: number): number {
  const characters = lines.reduce((sum, line) => sum + charactersOf(line).length, 0);
  const readMs = Math.ceil((1_000 * characters) / MAX_READING_SPEED);
  const wanted = startMs + Math.min(MAX_CUE_MS, Math.max(MIN_CUE_MS, readMs));
  const extended = Math.max(endMs, Math.min(wanted, latest));
  return extended > latest && latest - startMs >= SHORTEST_WITH_GAP_MS ? latest : extended;
}
