/** Renders a stored transcript in the formats that `run --format` and the server offer. Pure. */
import { type Cue, layOutCues } from './subtitle-cues.ts';
import type { CueWord, TimedText } from './subtitle-words.ts';

export const TRANSCRIPT_FORMATS = ['txt', 'json', 'srt', 'vtt', 'tsv'] as const;
export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number];

/** What the renderers read; JSON keeps every other field too. */
export interface RenderableTranscript {
  readonly segments: readonly TimedText[];
  /** Where it is known, no subtitle goes on after the end. */
  readonly audio?: { readonly durationSeconds: number };
}

/**
 * The file's whole content. No speech gives an empty txt or srt, a vtt or tsv of only its header, and a whole json. Speakers
 * and the times of words stand wherever the format has a place for them.
 */
export function renderTranscript(
  transcript: RenderableTranscript,
  format: TranscriptFormat,
): string {
  const { segments, audio } = transcript;
  const limits = audio === undefined ? {} : { durationMs: 1_000 * audio.durationSeconds };
  switch (format) {
    case 'txt':
      return renderText(segments);
    case 'json':
      return `${JSON.stringify(transcript, undefined, 2)}\n`;
    case 'srt':
      return renderSrt(layOutCues(segments, { ...limits, namesSpeakers: true }));
    case 'vtt':
      return renderVtt(layOutCues(segments, limits));
    case 'tsv':
      return renderTsv(segments);
    default: {
      const unknown: never = format;
      throw new TypeError(`no renderer for ${String(unknown)}`);
    }
  }
}

/** One segment a line; where speakers are told apart one turn a line: all that one says until another does. */
function renderText(segments: readonly TimedText[]): string {
  const lines: { readonly speaker: string | undefined; text: string }[] = [];
  for (const { speaker, text } of segments) {
    const words = oneLine(text);
    const last = lines.at(-1);
    if (words === '') continue;
    if (speaker !== undefined && last?.speaker === speaker) last.text += ` ${words}`;
    else lines.push({ speaker, text: words });
  }
  return lines
    .map(({ speaker, text }) => `${speaker === undefined ? '' : `${oneLine(speaker)}: `}${text}\n`)
    .join('');
}

/** Seconds; the speaker is empty where speakers are not told apart. */
function renderTsv(segments: readonly TimedText[]): string {
  const rows = segments.map(({ start, end, speaker = '', text }) =>
    [start.toFixed(3), end.toFixed(3), oneLine(speaker), oneLine(text)].join('\t'),
  );
  return ['start\tend\tspeaker\ttext', ...rows].map((row) => `${row}\n`).join('');
}

function renderSrt(cues: readonly Cue[]): string {
  const blocks = cues.map(
    (cue, at) =>
      `${at + 1}\n${timestamp(cue.startMs, ',')} --> ${timestamp(cue.endMs, ',')}\n${cue.lines.join('\n')}\n`,
  );
  return blocks.join('\n');
}

function renderVtt(cues: readonly Cue[]): string {
  const blocks = cues.map(
    (cue) =>
      `\n${timestamp(cue.startMs, '.')} --> ${timestamp(cue.endMs, '.')}\n${vttVoice(cue)}${vttLines(cue).join('\n')}\n`,
  );
  return `WEBVTT\n${blocks.join('')}`;
}

/** Holds to the end of the cue. */
function vttVoice({ speaker }: Cue): string {
  return speaker === undefined ? '' : `<v ${escapeVtt(oneLine(speaker))}>`;
}

function vttLines({ lines, timedLines, startMs, endMs }: Cue): string[] {
  if (timedLines === undefined) return lines.map(escapeVtt);
  // Timestamps in a cue rise, and lie between its own.
  let reachedMs = startMs;
  const mark = (word: CueWord): string => {
    const ms = Math.round(word.startMs);
    if (ms <= reachedMs || ms >= endMs) return '';
    reachedMs = ms;
    return `<${timestamp(ms, '.')}>`;
  };
  return timedLines.map((words) =>
    words
      .map((word, at) => {
        const space = at > 0 && word.spaceBefore ? ' ' : '';
        return `${space}${mark(word)}${escapeVtt(word.text)}`;
      })
      .join(''),
  );
}

/** `&`, `<` start markup in cue text, and `-->` may not occur in it. */
function escapeVtt(line: string): string {
  return line.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function oneLine(text: string): string {
  return text.replace(/\s+/gu, ' ').trim();
}

/** HH:MM:SS with milliseconds; hours take as many digits as they need. */
function timestamp(ms: number, decimalMark: ',' | '.'): string {
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');
  const hours = two(ms / 3_600_000);
  const minutes = two((ms / 60_000) % 60);
  const seconds = two((ms / 1000) % 60);
  return `${hours}:${minutes}:${seconds}${decimalMark}${String(ms % 1000).padStart(3, '0')}`;
}
