import { expect, test } from 'vitest';
import { failureToError, formatFailure, WavepoolError } from '../../../src/core/errors.ts';
import {
  JobData,
  JobId,
  ModelId,
  parseJobData,
  parseRawAudioFormat,
} from '../../../src/core/job/job.ts';

const smallest = { input: { kind: 'path', path: '/a.wav' }, model: 'm', submittedAt: 1 } as const;

test('a job needs an input, a model and a time; the rest has defaults', () => {
  expect(parseJobData(smallest)).toEqual({
    schemaVersion: 1,
    input: { kind: 'path', path: '/a.wav' },
    task: 'transcribe',
    model: 'm',
    options: {
      translate: false,
      words: false,
      channels: 'mix',
      vad: {
        threshold: 0.5,
        minSilenceMs: 400,
        targetSegmentMs: 8_000,
        longSilenceMs: 1_500,
        minSpeechMs: 250,
        padMs: 200,
      },
    },
    clocks: { busyTimeoutMs: 300_000, timeoutMs: 21_600_000 },
    tenant: 'default',
    partials: false,
    submittedAt: 1,
    crashCount: 0,
  });
  expect(JobData.parse(parseJobData(smallest))).toEqual(parseJobData(smallest));
});

test('the task tells which options a job has; segments of speech are not joined for a recognizer', () => {
  const { task, options } = parseJobData({
    ...smallest,
    task: 'vad',
    options: { vad: { padMs: 0 } },
  });
  expect({ task, options }).toEqual({
    task: 'vad',
    options: {
      vad: {
        threshold: 0.5,
        minSilenceMs: 400,
        targetSegmentMs: 0,
        longSilenceMs: 1_500,
        minSpeechMs: 250,
        padMs: 0,
      },
    },
  });
});

test.each([
  [{ task: 'vad', options: { language: 'en' } }, 'language'],
  [{ task: 'sing' }, 'the task is transcribe or vad'],
])('a job whose task is wrong, or has other options, is refused: %j', (wrong, words) => {
  expect(() => parseJobData({ ...smallest, ...wrong })).toThrow(
    expect.objectContaining({ code: 'INVALID_REQUEST', message: expect.stringContaining(words) }),
  );
});

test('bad job data is refused with the field that is wrong', () => {
  const bad = { ...smallest, input: { kind: 'path', path: 'relative.wav' } };
  expect(() => parseJobData(bad)).toThrow('input.path');
  expect(() => parseJobData({ ...smallest, surprise: 1 })).toThrow('surprise');
});

test.each(['failed', 'wait', 'meta', 'a:b', '12345', '', '-a', 'a/b', 'ä', 'x'.repeat(129)])(
  'job id %j is refused',
  (id) => {
    expect(JobId.safeParse(id).success).toBe(false);
  },
);

test.each(['A1', 'run-1.file_7', '0a', '..'.padStart(3, 'a')])('job id %j is allowed', (id) => {
  expect(JobId.safeParse(id).success).toBe(true);
});

test.each(['Moonshine', '.a', 'a:b', 'a'.repeat(65)])('model id %j is refused', (id) => {
  expect(ModelId.safeParse(id).success).toBe(false);
});

test('a failure comes back from its text with code and detail', () => {
  const error = new WavepoolError('INPUT_NOT_FOUND', '/a: b.wav');
  const back = failureToError(formatFailure(error));
  expect([back.code, back.detail, back.message]).toEqual([error.code, error.detail, error.message]);
  expect(failureToError('something broke').code).toBe('INTERNAL');
});

test.each([
  ['mulaw,8000,1', { codec: 'mulaw', sampleRate: 8_000, channels: 1 }],
  ['f32le,48000,2', { codec: 'f32le', sampleRate: 48_000, channels: 2 }],
])('%s declares audio without a header', (text, format) => {
  expect(parseRawAudioFormat(text)).toEqual(format);
});

test.each([
  'mulaw',
  'mulaw,8000',
  'mulaw,8000,0',
  'mulaw,1e4,1',
  'opus,48000,2',
  'lavfi,1000,1',
  '',
])('%j declares nothing', (text) => {
  expect(() => parseRawAudioFormat(text)).toThrow(
    expect.objectContaining({ code: 'INVALID_REQUEST' }),
  );
});
