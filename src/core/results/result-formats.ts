/** Which formats the result of each task can be written in. A format that several tasks have means the same in each. */
import { WavepoolError } from '../errors.ts';
import type { JobTask } from '../job/job.ts';
import type { JobResult } from './job-result.ts';
import { renderSpeech, SPEECH_FORMATS, type SpeechFormat } from './speech-formats.ts';
import {
  renderTranscript,
  TRANSCRIPT_FORMATS,
  type TranscriptFormat,
} from './transcript-formats.ts';

export type ResultFormat = TranscriptFormat | SpeechFormat;

/** Of all tasks. */
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

export function isResultFormat(value: string): value is ResultFormat {
  return RESULT_FORMATS.some((format) => format === value);
}

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
