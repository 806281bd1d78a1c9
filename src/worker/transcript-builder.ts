/** Turns what a transcription run found into the stored transcript, and the transcript into the job's small outcome. */
import type { JobData, JobOutcome, JobTimings } from '../core/job.ts';
import { TRANSCRIPT_SCHEMA_VERSION, type Transcript } from '../core/transcript.ts';
import { type AudioWarning, SAMPLE_RATE } from '../runtime/engine.ts';
import { describeInput, inputName } from '../storage/inputs.ts';
import type { InputReader } from './input-reader.ts';
import type { Transcription } from './transcription.ts';

export interface TranscriptFacts {
  readonly jobId: string;
  readonly data: JobData;
  readonly bytes: number;
  readonly reader: InputReader;
  readonly transcription: Transcription;
  readonly timings: JobTimings;
  /** Identity of the native build. */
  readonly build: string;
  readonly createdAt: Date;
}

export function buildTranscript(facts: TranscriptFacts): Transcript {
  const { data, reader, transcription } = facts;
  const segments = transcription.segments.filter(({ text }) => text !== '');
  const { container, codec, sampleRate, channels } = reader.audio.info;
  return {
    schemaVersion: TRANSCRIPT_SCHEMA_VERSION,
    jobId: facts.jobId,
    model: data.model,
    task: data.task,
    input: { name: inputName(data.input), path: describeInput(data.input), bytes: facts.bytes },
    audio: {
      durationSeconds: toSeconds(transcription.durationSeconds * SAMPLE_RATE),
      container,
      codec,
      sampleRate,
      channels,
    },
    text: segments.map(({ text }) => text).join(' '),
    segments: segments.map((segment) => ({
      start: toSeconds(segment.startSample),
      end: toSeconds(segment.endSample),
      text: segment.text,
      ...(segment.truncated ? { truncated: true } : {}),
    })),
    noSpeech: transcription.segments.length === 0,
    warnings: [...reader.warnings, ...recognitionWarnings(transcription)],
    timings: facts.timings,
    build: facts.build,
    createdAt: facts.createdAt.toISOString(),
  };
}

/** Milliseconds are as fine as anybody reads, and make the JSON short. */
export function toSeconds(samples: number): number {
  return Math.round((samples * 1_000) / SAMPLE_RATE) / 1_000;
}

function recognitionWarnings({ segments, guessedSegments }: Transcription): AudioWarning[] {
  const warnings: AudioWarning[] = [];
  const truncated = segments.filter((segment) => segment.truncated).length;
  if (truncated > 0) {
    const message = `${truncated} of ${segments.length} segments reached the model's length limit`;
    warnings.push({ code: 'SEGMENT_TRUNCATED', message });
  }
  if (guessedSegments > 0) {
    const message = `the text of ${guessedSegments} of ${segments.length} segments is a guess: hardly a word was understood`;
    warnings.push({ code: 'TEXT_GUESSED', message });
  }
  const silent = segments.filter(({ text }) => text === '').length;
  if (silent > 0) {
    const message = `no words were recognized in ${silent} of ${segments.length} segments`;
    warnings.push({ code: 'SPEECH_NOT_RECOGNIZED', message });
  }
  return warnings;
}

export function outcomeOf(transcript: Transcript, resultKey: string): JobOutcome {
  const { audio, segments, text, noSpeech, warnings, timings } = transcript;
  return {
    resultKey,
    durationSeconds: audio.durationSeconds,
    speechSeconds: segments.reduce((sum, { start, end }) => sum + end - start, 0),
    segments: segments.length,
    characters: text.length,
    noSpeech,
    warnings: warnings.map(({ code }) => code),
    timings,
  };
}
