import { describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { TranscribeOptions } from '../../../src/core/job/job.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { SAMPLE_RATE } from '../../../src/runtime/engine.ts';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { DecodeAllowance } from '../../../src/worker/audio/decode-allowance.ts';
import { openInput } from '../../../src/worker/audio/input-channels.ts';
import type { RecognizedSegment } from '../../../src/worker/tasks/pending-segments.ts';
import {
  type TranscriptionProgress,
  TranscriptionRun,
} from '../../../src/worker/tasks/transcription.ts';
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

const MINIMUM_SECONDS = 60;

/** @param lazy gets the runtime, whose models are then left to be loaded by the job. */
async function transcribe(
  script: EngineScript,
  signal = new AbortController().signal,
  lazy?: { runtime?: Runtime },
) {
  await using runtime = new Runtime(scriptedEngine(script), systemClock);
  const detector = runtime.register('vad', { ...CONFIGURATION, path: 'vad' });
  const recognizer = runtime.register('asr', { ...CONFIGURATION, path: 'asr' });
  if (lazy) lazy.runtime = runtime;
  else await runtime.loadEagerly();
  const reader = await openInput(runtime.engine, { path: 'any' }, 'ffmpeg');
  const progress: TranscriptionProgress[] = [];
  const told: string[] = [];
  const request = {
    jobId: 'job',
    sequence: 1,
    priority: 0,
    alone: false,
    options: TranscribeOptions.parse({
      vad: { padMs: 0, minSilenceMs: 1_000, targetSegmentMs: 0 },
    }),
    busyTimeoutMs: 0,
    onProgress: (each: TranscriptionProgress) => progress.push(each),
    onSegment: ({ result }: RecognizedSegment, index: number) =>
      told.push(`${index}: ${result.text}`),
  };
  const allowance = new DecodeAllowance({
    totalSeconds: MINIMUM_SECONDS,
    minimumSeconds: MINIMUM_SECONDS,
  });
  const services = { detector, recognizer, allowance, now: () => performance.now() };
  if (!(reader.audio instanceof ScriptedAudio)) throw new Error('not the scripted audio');
  const { audio } = reader;
  try {
    const channels = [{ reader, speaker: undefined }];
    const result = await new TranscriptionRun(channels, request, services).run(signal);
    const texts = result.segments.map(({ result: { text } }) => text);
    return { ...result, texts, progress, told, audio };
  } finally {
    await reader.close();
    // Whatever happened, nothing of the job is left in a batcher.
    for (const entry of [detector, recognizer]) {
      expect(entry.batcher.stats()).toMatchObject({ queuedItems: 0, runningItems: 0 });
    }
  }
}

describe('TranscriptionRun', () => {
  test('recognizes every stretch of speech, in the order of the audio', async () => {
    const { texts, durationSeconds, speechSeconds } = await transcribe({ audio: '..sss...ss..s' });
    expect(texts).toEqual(['2-5', '8-10', '12-13']);
    expect(durationSeconds).toBe(13);
    expect(speechSeconds).toBe(6);
  });

  test('asks once more for words where there is speech and none were found', async () => {
    const clear = await transcribe({ audio: '.ss...ss.' });
    expect(clear).toMatchObject({ texts: ['1-3', '6-8'], guessedSegments: 0 });
    const { texts, told, guessedSegments } = await transcribe({ audio: '.ss...ss.', unclear: [6] });
    expect(texts).toEqual(['1-3', '6-8']);
    expect(told).toEqual(['0: 1-3', '1: 6-8']);
    expect(guessedSegments).toBe(1);
  });

  test('segments that end out of order are put back into order', async () => {
    let first: (() => void) | undefined;
    const { texts, told } = await transcribe({
      audio: '.ss...ss...ss.',
      onRecognize: ({ startSample }) => {
        if (startSample === SAMPLE_RATE) {
          return new Promise<void>((resolve) => {
            first = resolve;
          });
        }
        if (startSample === 11 * SAMPLE_RATE) first?.();
        return undefined;
      },
    });
    expect(texts).toEqual(['1-3', '6-8', '11-13']);
    expect(told.toSorted()).toEqual(['0: 1-3', '1: 6-8', '2: 11-13']);
  });

  test('silence gives no segments and asks the recognizer for nothing', async () => {
    const { segments, durationSeconds } = await transcribe({
      audio: '.'.repeat(100),
      onRecognize: () => {
        throw new Error('nothing to recognize');
      },
    });
    expect(segments).toEqual([]);
    expect(durationSeconds).toBe(100);
  });

  test('a long input never holds more audio than its allowance', async () => {
    const audio = 'ssssssss..'.repeat(360);
    const { texts, audio: decoded } = await transcribe({ audio });
    expect(texts).toHaveLength(360);
    expect(decoded.mostHeldSamples).toBeLessThanOrEqual(MINIMUM_SECONDS * SAMPLE_RATE);
  });

  test('an input that breaks off ends the job with its reason', async () => {
    const script = { audio: '.ss...'.repeat(20), brokenAtSecond: 70 };
    await expect(transcribe(script)).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
  });

  test('a segment that fails ends the job with its reason, also while decoding goes on', async () => {
    const failing = transcribe({
      audio: '.ss...'.repeat(100),
      onRecognize: ({ startSample }) => {
        if (startSample === 7 * SAMPLE_RATE) throw new WavepoolError('INSUFFICIENT_MEMORY', 'full');
      },
    });
    await expect(failing).rejects.toMatchObject({ code: 'INSUFFICIENT_MEMORY' });
  });

  test('an aborted job ends with the reason of its signal', async () => {
    const controller = new AbortController();
    const aborted = transcribe(
      {
        audio: '.ss...'.repeat(100),
        onRecognize: () => controller.abort(new WavepoolError('JOB_TIMEOUT', '5 ms')),
      },
      controller.signal,
    );
    await expect(aborted).rejects.toMatchObject({ code: 'JOB_TIMEOUT' });
  });

  test('a job that was aborted before it began does nothing', async () => {
    const signal = AbortSignal.abort(new WavepoolError('CANCELLED', 'by the user'));
    await expect(transcribe({ audio: 'ss' }, signal)).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  test('progress only grows and ends with the whole input', async () => {
    const { progress } = await transcribe({ audio: '.ss...'.repeat(30) });
    const processed = progress.map(({ processedSeconds }) => processedSeconds);
    expect(processed).toEqual(processed.toSorted((a, b) => a - b));
    expect(progress.at(-1)).toMatchObject({ totalSeconds: 180, segmentsDone: 30 });
  });

  test('models that are not loaded are loaded by the job, and again when they go in the middle of it', async () => {
    const lazy: { runtime?: Runtime } = {};
    let unloading: Promise<unknown> | undefined;
    const { texts } = await transcribe(
      {
        audio: '.ss...'.repeat(100),
        onRecognize: () => {
          unloading ??= lazy.runtime?.unloadMany('all');
        },
      },
      undefined,
      lazy,
    );
    expect(await unloading).toMatchObject({ notFound: [] });
    expect(texts).toHaveLength(100);
    expect(lazy.runtime?.snapshot().models.map(({ generation }) => generation)).toEqual([2, 2]);
  });
});
