import { describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { DetectionOptions, type JobProgress } from '../../../src/core/job/job.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { SAMPLE_RATE } from '../../../src/runtime/engine.ts';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { DecodeAllowance } from '../../../src/worker/audio/decode-allowance.ts';
import { openInput } from '../../../src/worker/audio/input-channels.ts';
import { DECODE_STEP_SECONDS } from '../../../src/worker/speech/speech-search.ts';
import type { SpeechSegment } from '../../../src/worker/speech/speech-segmenter.ts';
import { runDetection } from '../../../src/worker/tasks/detection.ts';
import { type EngineScript, ScriptedAudio, scriptedEngine } from '../scripted-engine.ts';

const CONFIGURATION = {
  mode: 'offline',
  slots: 1,
  threads: 1,
  maxBatch: 4,
  maxAudioSeconds: 1_000,
  maxWaitMs: 0,
  busyTimeoutMs: 0,
} as const;

interface Setup {
  readonly vad?: Partial<DetectionOptions['vad']>;
  readonly maxSegmentSeconds?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: () => void;
  /** Of the model that is asked. */
  readonly path?: string;
}

/** Runs a job on the scripted engine, which has no recognizer here. */
async function detect(script: EngineScript, setup: Setup = {}) {
  await using runtime = new Runtime(scriptedEngine(script), systemClock);
  const detector = runtime.register('vad', { ...CONFIGURATION, path: setup.path ?? 'vad' });
  await detector.load();
  const reader = await openInput(runtime.engine, { path: 'any' }, 'ffmpeg');
  const { audio } = reader;
  if (!(audio instanceof ScriptedAudio)) throw new Error('not the scripted audio');
  const progress: Omit<JobProgress, 'phase'>[] = [];
  const told: string[] = [];
  const { maxSegmentSeconds } = setup;
  const request = {
    jobId: 'job',
    sequence: 1,
    priority: 0,
    alone: false,
    options: DetectionOptions.parse({
      vad: { padMs: 0, minSilenceMs: 1_000, ...setup.vad },
      maxSegmentSeconds,
    }),
    busyTimeoutMs: 0,
    onProgress: (each: Omit<JobProgress, 'phase'>) => {
      progress.push(each);
      setup.onProgress?.();
    },
    onSegment: (segment: SpeechSegment, index: number) => told.push(`${index}: ${range(segment)}`),
  };
  const allowance = new DecodeAllowance({ totalSeconds: 60, minimumSeconds: 60 });
  const services = { detector, allowance, now: () => performance.now() };
  const { signal = new AbortController().signal } = setup;
  try {
    const result = await runDetection(reader, request, services, signal);
    return { ...result, ranges: result.segments.map(range), progress, told, audio };
  } finally {
    await reader.close();
    // Whatever happened, nothing of the job is left in the batcher, and its share of audio is free again.
    expect(detector.batcher.stats()).toMatchObject({ queuedItems: 0, runningItems: 0 });
    allowance.enter();
    expect(allowance.perJobSeconds).toBe(60);
  }
}

function range({ startSample, endSample }: SpeechSegment): string {
  return `${startSample / SAMPLE_RATE}-${endSample / SAMPLE_RATE}`;
}

describe('runDetection', () => {
  test('finds every stretch of speech, told as it ends, with how sure the detector is', async () => {
    const { ranges, told, segments, durationSeconds } = await detect({ audio: '..sss...ss..s' });
    expect(ranges).toEqual(['2-5', '8-10', '12-13']);
    expect(told).toEqual(['0: 2-5', '1: 8-10', '2: 12-13']);
    for (const { confidence } of segments) expect(confidence).toBeCloseTo(0.9);
    expect(durationSeconds).toBe(13);
  });

  test('has no limit of a recognizer, but splits what is longer than asked for', async () => {
    const audio = `.${'s'.repeat(600)}..`;
    expect((await detect({ audio })).ranges).toEqual(['1-601']);
    const { segments } = await detect({ audio }, { maxSegmentSeconds: 20 });
    expect(segments.length).toBeGreaterThanOrEqual(30);
    for (const { startSample, endSample } of segments)
      expect(endSample - startSample).toBeLessThanOrEqual(20 * SAMPLE_RATE);
  });

  test('joins across short pauses and pads as the options say', async () => {
    const audio = '..ss..ss......ss..';
    const vad = { minSilenceMs: 3_000, padMs: 500 };
    expect((await detect({ audio }, { vad })).ranges).toEqual(['1.5-8.5', '13.5-16.5']);
  });

  test('silence gives no segments', async () => {
    const { segments, durationSeconds } = await detect({ audio: '.'.repeat(100) });
    expect(segments).toEqual([]);
    expect(durationSeconds).toBe(100);
  });

  test('a long input never holds more audio than one step', async () => {
    const { ranges, audio } = await detect({ audio: 'ssssssss..'.repeat(360) });
    expect(ranges).toHaveLength(360);
    expect(audio.mostHeldSamples).toBeLessThanOrEqual(DECODE_STEP_SECONDS * SAMPLE_RATE);
  });

  test('progress only grows and ends with the whole input', async () => {
    const { progress } = await detect({ audio: '.ss...'.repeat(30) });
    const processed = progress.map(({ processedSeconds }) => processedSeconds);
    expect(processed).toEqual([30, 60, 90, 120, 150, 180]);
    expect(progress.map(({ totalSeconds }) => totalSeconds)).toEqual([
      ...Array<null>(5).fill(null),
      180,
    ]);
    expect(progress.at(-1)).toMatchObject({ segmentsDone: 30 });
  });

  test('an input that breaks off ends the job with its reason', async () => {
    const script = { audio: '.ss...'.repeat(20), brokenAtSecond: 70 };
    await expect(detect(script)).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
  });

  test('an aborted job ends with the reason of its signal, before more is decoded', async () => {
    const controller = new AbortController();
    let steps = 0;
    const onProgress = (): void => {
      steps += 1;
      controller.abort(new WavepoolError('JOB_TIMEOUT', '5 ms'));
    };
    const aborted = detect(
      { audio: '.ss...'.repeat(100) },
      { signal: controller.signal, onProgress },
    );
    await expect(aborted).rejects.toMatchObject({ code: 'JOB_TIMEOUT' });
    expect(steps).toBe(1);
  });

  test('a model that does not detect speech is refused', async () => {
    const refused = detect({ audio: '.ss' }, { path: 'asr' });
    await expect(refused).rejects.toMatchObject({ code: 'TASK_UNSUPPORTED' });
  });
});
