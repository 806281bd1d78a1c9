/** What the results of all tasks tell of a job and its input, and what becomes of a result in the queue. */
import type { JobData, JobOutcome, JobTimings } from '../../core/job/job.ts';
import { type JobResult, RESULT_SCHEMA_VERSION } from '../../core/results/job-result.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';
import { describeInput, inputName } from '../../storage/inputs.ts';
import type { InputChannels } from '../audio/input-channels.ts';

export interface ResultFacts {
  readonly jobId: string;
  readonly data: JobData;
  readonly bytes: number;
  /** Read to its end. */
  readonly channels: InputChannels;
  readonly timings: JobTimings;
  /** Identity of the native build. */
  readonly build: string;
  readonly createdAt: Date;
}

export function identityOf({ jobId, data }: ResultFacts) {
  return { schemaVersion: RESULT_SCHEMA_VERSION, jobId, model: data.model } as const;
}

export function sourceOf({ data, bytes, channels: input }: ResultFacts) {
  const { container, codec, sampleRate, channels } = input.info;
  const durationSeconds = toSeconds(input.endSample);
  return {
    input: { name: inputName(data.input), path: describeInput(data.input), bytes },
    audio: { durationSeconds, container, codec, sampleRate, channels },
  };
}

export function provenanceOf({ timings, build, createdAt }: ResultFacts) {
  return { timings, build, createdAt: createdAt.toISOString() };
}

/** Milliseconds are as fine as anybody reads, and make the JSON short. */
export function toSeconds(samples: number): number {
  return Math.round((samples * 1_000) / SAMPLE_RATE) / 1_000;
}

export function outcomeOf(result: JobResult, resultKey: string): JobOutcome {
  const { audio, noSpeech, warnings, timings } = result;
  const times: readonly { start: number; end: number }[] = result.segments;
  return {
    resultKey,
    durationSeconds: audio.durationSeconds,
    // Of times in milliseconds the sum is one, too.
    speechSeconds: Math.round(1_000 * times.reduce((sum, t) => sum + t.end - t.start, 0)) / 1_000,
    segments: times.length,
    characters: result.task === 'transcribe' ? result.text.length : 0,
    noSpeech,
    warnings: warnings.map(({ code }) => code),
    timings,
  };
}
