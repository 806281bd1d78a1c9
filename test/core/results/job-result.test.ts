import { expect, test } from 'vitest';
import {
  asSpeechActivity,
  asTranscript,
  parseJobResult,
} from '../../../src/core/results/job-result.ts';
import { speechActivityOf } from '../../support/speech-activity.ts';
import { transcriptOf } from '../../support/transcript.ts';

const TRANSCRIPT = transcriptOf('a', 'hello');
const SPEECH = speechActivityOf('b', [[0.5, 1]]);

test('a stored result is read as what its task gives', () => {
  expect(parseJobResult(TRANSCRIPT)).toEqual(TRANSCRIPT);
  expect(parseJobResult(SPEECH)).toEqual(SPEECH);
});

test('a stored result that names no task is a transcript', () => {
  const { task: _, ...old } = TRANSCRIPT;
  expect(parseJobResult(old)).toEqual(TRANSCRIPT);
});

test('members of another task are refused', () => {
  const mixed = { ...SPEECH, text: 'hello' };
  expect(() => parseJobResult(mixed)).toThrow(expect.objectContaining({ code: 'INTERNAL' }));
  expect(() => parseJobResult({ ...SPEECH, task: 'sing' })).toThrow('not a result');
});

test('a result is taken only for what it is', () => {
  expect(asTranscript(TRANSCRIPT)).toBe(TRANSCRIPT);
  expect(asSpeechActivity(SPEECH)).toBe(SPEECH);
  const refusal = expect.objectContaining({ code: 'INVALID_REQUEST' });
  expect(() => asTranscript(SPEECH)).toThrow(refusal);
  expect(() => asSpeechActivity(TRANSCRIPT)).toThrow(refusal);
});
