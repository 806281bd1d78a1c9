import { appendFile, mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { type JobInput, parseJobData } from '../../../src/core/job/job.ts';
import { Transcript } from '../../../src/core/results/job-result.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { LocalResultStore } from '../../../src/storage/local-result-store.ts';
import { uploadPath } from '../../../src/storage/local-uploads.ts';
import { DecodeAllowance } from '../../../src/worker/audio/decode-allowance.ts';
import { type JobAttempt, JobProcessor } from '../../../src/worker/job/job-processor.ts';
import { temporaryFolder } from '../../support/redis.ts';
import { type EngineScript, scriptedEngine } from '../scripted-engine.ts';

const CONFIGURATION = {
  mode: 'offline',
  slots: 1,
  threads: 1,
  maxBatch: 4,
  maxAudioSeconds: 1_000,
  maxWaitMs: 0,
  busyTimeoutMs: 0,
} as const;

const MAX_AUDIO_SECONDS = 400;
const UPLOAD = 'a'.repeat(64);

/** Processes jobs of one input on the scripted engine, in a folder that goes with the returned object. */
async function workplace(script: Partial<EngineScript> = {}) {
  const folder = await temporaryFolder();
  const runtime = new Runtime(scriptedEngine({ audio: '.sss..', ...script }), systemClock);
  const [vad, weights] = [path.join(folder.path, 'vad'), path.join(folder.path, 'asr')];
  for (const each of [vad, weights]) await writeFile(each, 'weights');
  const detector = runtime.register('vad', { ...CONFIGURATION, path: vad });
  const recognizer = runtime.register('asr', { ...CONFIGURATION, path: weights });
  await Promise.all([detector.load(), recognizer.load()]);
  const results = await LocalResultStore.open(path.join(folder.path, 'results'));
  const uploadsDir = path.join(folder.path, 'uploads');
  const upload = uploadPath(uploadsDir, UPLOAD);
  await mkdir(path.dirname(upload), { recursive: true });
  await writeFile(upload, 'audio');
  const recording = path.join(folder.path, 'recording.wav');
  await writeFile(recording, 'audio');
  const allowance = new DecodeAllowance({ totalSeconds: 60, minimumSeconds: 60 });
  const places = { uploadsDir };
  const shared = { runtime, detector, results, allowance, ffmpeg: 'ffmpeg', places };
  const processor = new JobProcessor({ ...shared, maxAudioSeconds: MAX_AUDIO_SECONDS });
  const process = (input: JobInput, attempt: Partial<JobAttempt> = {}) =>
    processor.process({
      jobId: 'job',
      data: parseJobData({ input, model: 'asr', submittedAt: Date.now() }),
      priority: 0,
      signal: new AbortController().signal,
      onProgress: () => undefined,
      assertOwned: () => Promise.resolve(),
      ...attempt,
    });
  const dispose = async () => {
    await runtime.close();
    await folder[Symbol.asyncDispose]();
  };
  return { recording, upload, results, weights, process, [Symbol.asyncDispose]: dispose };
}

type Place = Awaited<ReturnType<typeof workplace>>;

test('a job ends with a pointer to the transcript that it committed', async () => {
  await using place = await workplace();
  const outcome = await place.process({ kind: 'path', path: place.recording });
  expect(outcome).toMatchObject({ durationSeconds: 6, segments: 1, noSpeech: false });
  const transcript = await place.results.read(outcome.resultKey);
  expect(transcript.input).toMatchObject({ name: 'recording.wav', path: place.recording });
});

test('a vad job commits where somebody speaks, and asks no recognizer', async () => {
  const onRecognize = vi.fn();
  await using place = await workplace({ onRecognize });
  const input = { kind: 'path', path: place.recording } as const;
  const onSegment = vi.fn();
  const data = parseJobData({ input, model: 'vad', task: 'vad', submittedAt: Date.now() });
  const outcome = await place.process(input, { data, onSegment });
  expect(outcome).toMatchObject({
    durationSeconds: 6,
    speechSeconds: 3.4,
    segments: 1,
    characters: 0,
    noSpeech: false,
    timings: { asrMs: 0 },
  });
  const segment = { start: 0.8, end: 4.2 };
  expect(await place.results.read(outcome.resultKey)).toMatchObject({
    task: 'vad',
    model: 'vad',
    input: { name: 'recording.wav' },
    segments: [{ ...segment, confidence: 0.9 }],
  });
  expect(onSegment.mock.calls).toEqual([[{ index: 0, ...segment, text: '' }]]);
  expect(onRecognize).not.toHaveBeenCalled();
});

test('a recording without speech is a result of its own', async () => {
  await using place = await workplace({ audio: '.....' });
  const input = { kind: 'path', path: place.recording } as const;
  const data = parseJobData({ input, model: 'vad', task: 'vad', submittedAt: Date.now() });
  const outcome = await place.process(input, { data });
  expect(outcome).toMatchObject({ noSpeech: true, segments: 0, speechSeconds: 0 });
  expect(await place.results.read(outcome.resultKey)).toMatchObject({
    segments: [],
    noSpeech: true,
  });
});

test('a task that the model does not do fails the job', async () => {
  await using place = await workplace();
  const input = { kind: 'path', path: place.recording } as const;
  for (const [task, model] of [
    ['transcribe', 'vad'],
    ['vad', 'asr'],
  ]) {
    const data = parseJobData({ input, model, task, submittedAt: Date.now() });
    const failing = place.process(input, { data });
    await expect(failing).rejects.toMatchObject({ code: 'TASK_UNSUPPORTED', retryable: false });
  }
});

test('a job that has a result already is not run again', async () => {
  const onRecognize = vi.fn();
  await using place = await workplace({ onRecognize });
  const input = { kind: 'path', path: place.recording } as const;
  const first = await place.process(input);
  expect(await place.process(input)).toEqual(first);
  expect(onRecognize).toHaveBeenCalledTimes(1);
});

test('a file that is written to while it is read fails the job', async () => {
  const late = { change: () => Promise.resolve() };
  await using place = await workplace({ onRecognize: () => late.change() });
  late.change = () => appendFile(place.recording, 'more');
  await expect(place.process({ kind: 'path', path: place.recording })).rejects.toMatchObject({
    code: 'INPUT_CHANGED',
  });
});

test('a file that vanishes while it is read fails the job', async () => {
  const late = { change: () => Promise.resolve() };
  await using place = await workplace({ onRecognize: () => late.change() });
  late.change = () => rm(place.recording);
  await expect(place.process({ kind: 'path', path: place.recording })).rejects.toMatchObject({
    code: 'INPUT_CHANGED',
  });
});

test('an upload that another request uses meanwhile is the same audio', async () => {
  const late = { use: () => Promise.resolve() };
  await using place = await workplace({ onRecognize: () => late.use() });
  late.use = () => utimes(place.upload, 1, 1);
  const outcome = await place.process({ kind: 'upload', id: UPLOAD, name: 'talk.wav' });
  expect(outcome.segments).toBe(1);
});

test('a job that belongs to another worker by now leaves no result', async () => {
  await using place = await workplace();
  const lost = new Error('the lock has run out');
  const attempt = place.process(
    { kind: 'path', path: place.recording },
    { assertOwned: () => Promise.reject(lost) },
  );
  await expect(attempt).rejects.toBe(lost);
  await expect(place.results.read(place.results.keyOf('job'))).rejects.toMatchObject({
    code: 'RESULT_NOT_FOUND',
  });
});

test('more audio than is allowed fails the job, is decoded no further, and just so much does not', async () => {
  await using longest = await workplace({ audio: '.'.repeat(MAX_AUDIO_SECONDS) });
  const outcome = await longest.process({ kind: 'path', path: longest.recording });
  expect(outcome.durationSeconds).toBe(MAX_AUDIO_SECONDS);
  await using place = await workplace({ audio: '.'.repeat(100_000), brokenAtSecond: 401 });
  const tooLong = place.process({ kind: 'path', path: place.recording });
  await expect(tooLong).rejects.toMatchObject({ code: 'INPUT_TOO_LARGE', retryable: false });
});

/** 40 stretches of 5 s of speech, 9 s apart. */
const LONG = '.sssss...'.repeat(40);

/** What is recognized, by attempts of one job; the first breaks off after `breakAfter` segments. */
async function resume(breakAfter: number, between: (place: Place) => Promise<void> | void) {
  const recognized: number[] = [];
  let breakOff = true;
  await using place = await workplace({
    audio: LONG,
    onRecognize: ({ startSample }) => {
      if (breakOff && recognized.length >= breakAfter)
        throw new WavepoolError('INSUFFICIENT_MEMORY', 'for now');
      recognized.push(startSample);
    },
  });
  const input = { kind: 'path', path: place.recording } as const;
  const data = parseJobData({ input, model: 'asr', submittedAt: 0 });
  const first = place.process(input, { data });
  await expect(first).rejects.toMatchObject({ code: 'INSUFFICIENT_MEMORY' });
  const inFirst = recognized.length;
  breakOff = false;
  await between(place);
  const outcome = await place.process(input, { data });
  const transcript = Transcript.parse(await place.results.read(outcome.resultKey));
  const left = await place.results.journals.holds('job');
  return { inFirst, inSecond: recognized.length - inFirst, transcript, left };
}

test('an attempt goes on from the journal of the one before, to the same transcript', async () => {
  const { inFirst, inSecond, transcript, left } = await resume(38, () => undefined);
  expect(inFirst).toBe(38);
  expect(inSecond).toBe(2);
  expect(left).toBe(false);
  await using place = await workplace({ audio: LONG });
  const alone = await place.process({ kind: 'path', path: place.recording });
  const undisturbed = Transcript.parse(await place.results.read(alone.resultKey));
  expect(transcript.text).toBe(undisturbed.text);
  expect(transcript.segments).toEqual(undisturbed.segments);
  expect(transcript.segments).toHaveLength(40);
});

test('another file under the same name, or other weights, are begun anew', async () => {
  const touched = await resume(38, ({ recording }) => utimes(recording, 1, 1));
  expect(touched.inSecond).toBe(40);
  const retrained = await resume(38, ({ weights }) => appendFile(weights, 'more'));
  expect(retrained.inSecond).toBe(40);
});

test('a cancelled job leaves no journal, one that fails otherwise does', async () => {
  const input = (place: Place) => ({ kind: 'path', path: place.recording }) as const;
  for (const [code, kept] of [
    ['CANCELLED', false],
    ['SHUTTING_DOWN', true],
    ['JOB_TIMEOUT', true],
  ] as const) {
    const controller = new AbortController();
    let count = 0;
    await using place = await workplace({
      audio: LONG,
      onRecognize: () => {
        count += 1;
        if (count === 30) controller.abort(new WavepoolError(code, ''));
      },
    });
    const { signal } = controller;
    await expect(place.process(input(place), { signal })).rejects.toMatchObject({ code });
    expect(await place.results.journals.holds('job')).toBe(kept);
  }
});
