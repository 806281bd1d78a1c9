import { expect, test } from 'vitest';
import { parseJobData } from '../../../src/core/job/job.ts';
import { JobDataParser } from '../../../src/core/job/job-data-parser.ts';

const FIRST = {
  schemaVersion: 1,
  task: 'transcribe',
  input: { kind: 'path', path: '/audio/1.wav' },
  model: 'moonshine',
  options: { language: 'en', channels: 'split', speakers: ['agent', 'caller'] },
  submittedAt: 1,
};
const NEXT = { ...FIRST, input: { kind: 'path', path: '/audio/2.wav' }, submittedAt: 2 };

test.each([
  ['the same job', FIRST],
  ['another input and time', NEXT],
  ['another kind of input', { ...NEXT, input: { kind: 'url', url: 'https://a.b/c', name: 'c' } }],
  ['another tenant', { ...NEXT, tenant: 'other' }],
  ['another option', { ...NEXT, options: { ...FIRST.options, language: 'de' } }],
  ['other speakers', { ...NEXT, options: { ...FIRST.options, speakers: ['agent'] } }],
  ['one option less', { ...NEXT, options: { language: 'en' } }],
  ['another task', { ...NEXT, task: 'vad', options: {} }],
  ['a crash', { ...NEXT, crashCount: 1, lastCrashToken: 't' }],
  ['clocks', { ...NEXT, clocks: { deadlineAt: 5 } }],
])('what comes after another job is read as by itself: %s', (_what, raw) => {
  const parser = new JobDataParser();
  expect(parser.parse(FIRST)).toEqual(parseJobData(FIRST));
  expect(parser.parse(raw)).toEqual(parseJobData(raw));
  expect(parser.parse(FIRST)).toEqual(parseJobData(FIRST));
});

test.each([
  ['a relative path', { ...NEXT, input: { kind: 'path', path: 'a.wav' } }, 'INVALID_REQUEST'],
  ['no input', { ...NEXT, input: undefined }, 'INVALID_REQUEST'],
  ['a time that is none', { ...NEXT, submittedAt: -1 }, 'INVALID_REQUEST'],
  ['an unknown member', { ...NEXT, more: 1 }, 'INVALID_REQUEST'],
  ['an unknown option', { ...NEXT, options: { ...FIRST.options, more: 1 } }, 'INVALID_REQUEST'],
  ['a newer version', { ...NEXT, schemaVersion: 2 }, 'JOB_TOO_NEW'],
  ['nothing', null, 'INVALID_REQUEST'],
])('what is no job stays none after one that is: %s', (_what, raw, code) => {
  const parser = new JobDataParser();
  parser.parse(FIRST);
  expect(() => parser.parse(raw)).toThrow(expect.objectContaining({ code }));
  expect(parser.parse(NEXT)).toEqual(parseJobData(NEXT));
});
