/** Renders a stored transcript in the formats that `run --format` and the server offer. Pure. */
import type { Cue, TimedText } from './subtitle-cues.ts';
import { layOutCues } from './subtitle-cues.ts';

export const TRANSCRIPT_FORMATS = ['txt', 'json', 'srt', 'vtt'] as const;
export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number];

/** What the renderers read; JSON keeps every other field too. */
export interface RenderableTranscript {
  readonly segments: readonly TimedText[];
}

export function isTranscriptFormat(value: string): value is TranscriptFormat {
  return TRANSCRIPT_FORMATS.some((format) => format === value);
}

/** The file's whole content. No speech gives an empty txt or srt, a vtt of only its header, and a whole json. */
export function renderTranscript(
  transcript: RenderableTranscript,
  format: TranscriptFormat,
): string {
  switch (format) {
    case 'txt':
      return renderText(transcript.segments);
    case 'json':
      return `${JSON.stringify(transcript, undefined, 2)}\n`;
    case 'srt':
      return renderSrt(layOutCues(transcript.segments));
    case 'vtt':
      return renderVtt(layOutCues(transcript.segments));
    default: {
      const unknown: never = format;
      throw new TypeError(`no renderer for ${String(unknown)}`);
    }
  }
}

/** One segment a line. */
function renderText(segments: readonly TimedText[]): string {
  return segments
    .map(({ text }) => text.replace(/\s+/gu, ' ').trim())
    .filter((line) => line !== '')
    .map((line) => `${line}\n`)
    .join('');
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
      `\n${timestamp(cue.startMs, '.')} --> ${timestamp(cue.endMs, '.')}\n${cue.lines.map(escapeVtt).join('\n')}\n`,
  );
  return `WEBVTT\n${blocks.join('')}`;
}

/** `&`, `<` start markup in cue text, and `-->` may not occur in it. */
function escapeVtt(line: string): string {
  return line.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** HH:MM:SS with milliseconds; hours take as many digits as they need. */
function timestamp(ms: number, decimalMark: ',' | '.'): string {
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');
  const hours = two(ms / 3_600_000);
  const minutes = two((ms / 60_000) % 60);
  const seconds = two((ms / 1000) % 60);
  return `${hours}:${minutes}:${seconds}${decimalMark}${String(ms % 1000).padStart(3, '0')}`;
}
