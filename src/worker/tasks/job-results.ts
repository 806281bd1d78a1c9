/** Builds the result that is stored from what a task found, and the outcome for the queue from that result. */
import type { JobData, JobOutcome, JobTimings } from '../../core/job/job.ts';
import {
  type JobResult,
  RESULT_SCHEMA_VERSION,
  type SpeechActivity,
  type Transcript,
  type TranscriptSegment,
  type TranscriptWord,
} from '../../core/results/job-result.ts';
import {
  type AudioWarning,
  SAMPLE_RATE,
  type TimedPiece,
  type TimedWord,
} from '../../runtime/engine.ts';
import { describeInput, inputName } from '../../storage/inputs.ts';
import type { InputChannels } from '../audio/input-channels.ts';
import type { Detection } from './detection.ts';
import type { RecognizedSegment } from './pending-segments.ts';
import type { Transcription } from './transcription.ts';

/** What the results of all tasks tell of a job and its input. */
export interface ResultFacts {
  readonly jobId: string;
  readonly data: JobData;
  readonly bytes: number;
  /** The input, read to its end. */
  readonly channels: InputChannels;
  readonly timings: JobTimings;
  /** Identity of the native build. */
  readonly build: string;
  readonly createdAt: Date;
}

export function buildTranscript(facts: ResultFacts, transcription: Transcription): Transcript {
  const { segments, language } = transcription;
  const { all, warnings } = facts.channels;
  const texts = segments.map(({ result }) => result.text).filter((text) => text !== '');
  return {
    ...identityOf(facts),
    task: 'transcribe',
    ...sourceOf(facts),
    ...(language === undefined ? {} : { language }),
    text: texts.join(' '),
    segments: segments
      .flatMap((segment) => transcriptSegmentsOf(segment, all[segment.channel]?.speaker))
      .toSorted((a, b) => a.start - b.start),
    noSpeech: segments.length === 0,
    warnings: [...warnings, ...recognitionWarnings(transcription)],
    ...provenanceOf(facts),
  };
}

function recognitionWarnings({ segments, guessedSegments }: Transcription): AudioWarning[] {
  const warnings: AudioWarning[] = [];
  const truncated = segments.filter(({ result }) => result.truncated).length;
  if (truncated > 0) {
    const message = `${truncated} of ${segments.length} segments reached the model's length limit`;
    warnings.push({ code: 'SEGMENT_TRUNCATED', message });
  }
  if (guessedSegments > 0) {
    const message = `the text of ${guessedSegments} of ${segments.length} segments is a guess: hardly a word was understood`;
    warnings.push({ code: 'TEXT_GUESSED', message });
  }
  const silent = segments.filter(({ result }) => result.text === '').length;
  if (silent > 0) {
    const message = `no words were recognized in ${silent} of ${segments.length} segments`;
    warnings.push({ code: 'SPEECH_NOT_RECOGNIZED', message });
  }
  return warnings;
}

export function buildSpeechActivity(facts: ResultFacts, { segments }: Detection): SpeechActivity {
  return {
    ...identityOf(facts),
    task: 'vad',
    ...sourceOf(facts),
    segments: segments.map(({ startSample, endSample, confidence }) => ({
      start: toSeconds(startSample),
      end: toSeconds(endSample),
      confidence: Math.round(confidence * 1_000) / 1_000,
    })),
    noSpeech: segments.length === 0,
    warnings: [...facts.channels.warnings],
    ...provenanceOf(facts),
  };
}

/** What the queue keeps of a result: a pointer to it and small counts. */
export function outcomeOf(result: JobResult, resultKey: string): JobOutcome {
  const { audio, noSpeech, warnings, timings } = result;
  const times: readonly { start: number; end: number }[] = result.segments;
  return {
    resultKey,
    durationSeconds: audio.durationSeconds,
    // Rounded, because a sum of such decimal fractions is not one.
    speechSeconds: Math.round(1_000 * times.reduce((sum, t) => sum + t.end - t.start, 0)) / 1_000,
    segments: times.length,
    characters: result.task === 'transcribe' ? result.text.length : 0,
    noSpeech,
    warnings: warnings.map(({ code }) => code),
    timings,
  };
}

function identityOf({ jobId, data }: ResultFacts) {
  return { schemaVersion: RESULT_SCHEMA_VERSION, jobId, model: data.model } as const;
}

function sourceOf({ data, bytes, channels: input }: ResultFacts) {
  const { container, codec, sampleRate, channels } = input.info;
  const durationSeconds = toSeconds(input.endSample);
  return {
    input: { name: inputName(data.input), path: describeInput(data.input), bytes },
    audio: { durationSeconds, container, codec, sampleRate, channels },
  };
}

function provenanceOf({ timings, build, createdAt }: ResultFacts) {
  return { timings, build, createdAt: createdAt.toISOString() };
}

/** A range of the input in seconds. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The recognizer's own pieces if it gives them, or else the stretch as a whole; nothing when no words were found. Times never
 * leave the stretch and never run backwards: a piece begins where the one before it ends, or later.
 */
function transcriptSegmentsOf(
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

/** Rounds to four digits, which are more than a recognizer knows. */
function rounded(value: number): number {
  return Number.isFinite(value) ? Math.round(value * 10_000) / 10_000 : 0;
}

/** Seconds rounded to milliseconds, which are fine enough and keep the JSON short. */
export function toSeconds(samples: number): number {
  return Math.round((samples * 1_000) / SAMPLE_RATE) / 1_000;
}
