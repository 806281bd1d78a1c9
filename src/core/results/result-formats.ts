/** Which formats the result of each task can be written in. A format that several tasks have means the same in each. */

import path from 'node:path';
import { WavepoolError } from '../errors.ts';
import type { JobTask } from '../job/job.ts';
import type { JobResult } from './job-result.ts';
import {
  renderTranscript,
  TRANSCRIPT_FORMATS,
  type TranscriptFormat,
} from './transcript-formats.ts';

export const SPEECH_FORMATS = ['json', 'rttm', 'audacity'] as const;
export type SpeechFormat = (typeof SPEECH_FORMATS)[number];

export type ResultFormat = TranscriptFormat | SpeechFormat;

/** The formats of all tasks. */
export const RESULT_FORMATS = [
  'txt',
  'json',
  'srt',
  'vtt',
  'tsv',
  'rttm',
  'audacity',
] as const satisfies readonly ResultFormat[];

/** By task; the first is what is written when nobody says more. */
export const FORMATS_OF_TASK: Readonly<
  Record<JobTask, readonly [ResultFormat, ...ResultFormat[]]>
> = {
  transcribe: TRANSCRIPT_FORMATS,
  vad: SPEECH_FORMATS,
};

/** What a file's name ends with. Audacity imports labels from files of this kind. */
const FILE_EXTENSIONS: Readonly<Record<ResultFormat, string>> = {
  txt: 'txt',
  json: 'json',
  srt: 'srt',
  vtt: 'vtt',
  tsv: 'tsv',
  rttm: 'rttm',
  audacity: 'labels.txt',
};

/** Media types of the formats. */
export const RESULT_MEDIA_TYPES: Readonly<Record<ResultFormat, string>> = {
  txt: 'text/plain',
  json: 'application/json',
  srt: 'application/x-subrip',
  vtt: 'text/vtt',
  tsv: 'text/tab-separated-values',
  rttm: 'text/plain',
  audacity: 'text/plain',
};

/** Without the dot. */
export function fileExtension(format: ResultFormat): string {
  return FILE_EXTENSIONS[format];
}

export function defaultFormat(task: JobTask): ResultFormat {
  return FORMATS_OF_TASK[task][0];
}

/** @throws {WavepoolError} INVALID_REQUEST, with the formats that the task has, for any other */
export function assertFormats(task: JobTask, formats: readonly ResultFormat[]): void {
  const foreign = formats.find((format) => !FORMATS_OF_TASK[task].includes(format));
  if (foreign !== undefined) throw foreignFormat(task, foreign);
}

/**
 * The file's whole content.
 * @throws {WavepoolError} INVALID_REQUEST, with the formats that there are, when the result's task has no such format
 */
export function renderResult(result: JobResult, format: ResultFormat): string {
  switch (result.task) {
    case 'transcribe':
      if (isOneOf(TRANSCRIPT_FORMATS, format)) return renderTranscript(result, format);
      break;
    case 'vad':
      if (isOneOf(SPEECH_FORMATS, format)) return renderSpeech(result, format);
      break;
    default:
      result satisfies never;
  }
  throw foreignFormat(result.task, format);
}

function isOneOf<Format extends string>(
  formats: readonly Format[],
  value: string,
): value is Format {
  return formats.some((format) => format === value);
}

function foreignFormat(task: JobTask, format: ResultFormat): WavepoolError {
  const there = FORMATS_OF_TASK[task].join(', ');
  return new WavepoolError('INVALID_REQUEST', `a ${task} job has no ${format}; it has ${there}`);
}

/** What the renderers of speech segments read; JSON keeps every other field too. */
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
