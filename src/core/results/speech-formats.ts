/** Renders where somebody speaks in the formats of tools for annotation. Pure. */
import path from 'node:path';

export const SPEECH_FORMATS = ['json', 'rttm', 'audacity'] as const;
export type SpeechFormat = (typeof SPEECH_FORMATS)[number];

/** What the renderers read; JSON keeps every other field too. */
export interface RenderableSpeech {
  readonly input: { readonly name: string };
  readonly segments: readonly { readonly start: number; readonly end: number }[];
}

/** The file's whole content. No speech gives an empty rttm or label track, and a whole json. */
export function renderSpeech(speech: RenderableSpeech, format: SpeechFormat): string {
  switch (format) {
    case 'json':
      return `${JSON.stringify(speech, undefined, 2)}\n`;
    case 'rttm':
      return renderRttm(speech);
    case 'audacity':
      return renderLabels(speech);
    default: {
      const unknown: never = format;
      throw new TypeError(`no renderer for ${String(unknown)}`);
    }
  }
}

/** NIST's Rich Transcription Time Marked: type, file, channel, begin, duration, words, subtype, speaker, scores. */
function renderRttm({ input, segments }: RenderableSpeech): string {
  const file = rttmFileName(input.name);
  return segments
    .map(({ start, end }) => {
      const [begin, duration] = [start.toFixed(3), (end - start).toFixed(3)];
      return `SPEAKER ${file} 1 ${begin} ${duration} <NA> <NA> speech <NA> <NA>\n`;
    })
    .join('');
}

/** The file name without its extension, by NIST's rules; its fields are told apart by white space. */
function rttmFileName(name: string): string {
  const { name: stem } = path.parse(name);
  return stem.trim().replace(/\s+/gu, '_') || 'audio';
}

/** A label track as Audacity imports and exports it: begin, end and label, between tabs. */
function renderLabels({ segments }: RenderableSpeech): string {
  return segments
    .map(({ start, end }) => `${start.toFixed(6)}\t${end.toFixed(6)}\tspeech\n`)
    .join('');
}
