import { expect, test } from 'vitest';
import { JobTask } from '../../../src/core/job/job.ts';
import {
  assertFormats,
  defaultFormat,
  FORMATS_OF_TASK,
  fileExtension,
  RESULT_FORMATS,
  renderResult,
  renderSpeech,
} from '../../../src/core/results/result-formats.ts';
import { speechActivityOf } from '../../support/speech-activity.ts';
import { transcriptOf } from '../../support/transcript.ts';

const SPEECH = speechActivityOf('j', [
  [0.152, 2.44],
  [3_723.5, 3_725.004],
]);

test('rttm is a SPEAKER line per segment, with begin and duration in seconds', () => {
  expect(renderSpeech(SPEECH, 'rttm')).toBe(
    'SPEAKER a 1 0.152 2.288 <NA> <NA> speech <NA> <NA>\n' +
      'SPEAKER a 1 3723.500 1.504 <NA> <NA> speech <NA> <NA>\n',
  );
});

test('every line of rttm has ten fields, whatever the file is called', () => {
  for (const name of ['my talk\t(1).part.mp3', ' .wav', '会 議.flac', '   ']) {
    const lines = renderSpeech({ ...SPEECH, input: { name } }, 'rttm')
      .trimEnd()
      .split('\n');
    expect(lines.map((line) => line.split(/\s+/).length)).toEqual([10, 10]);
  }
  const named = renderSpeech({ ...SPEECH, input: { name: 'my talk.part.mp3' } }, 'rttm');
  expect(named).toMatch(/^SPEAKER my_talk\.part 1 /);
});

test('a label track for Audacity is begin, end and label between tabs', () => {
  expect(renderSpeech(SPEECH, 'audacity')).toBe(
    '0.152000\t2.440000\tspeech\n3723.500000\t3725.004000\tspeech\n',
  );
});

test('json is the stored result', () => {
  expect(JSON.parse(renderSpeech(SPEECH, 'json'))).toEqual(SPEECH);
});

test('no speech gives an empty rttm and an empty label track', () => {
  const silent = speechActivityOf('j', []);
  expect(renderSpeech(silent, 'rttm')).toBe('');
  expect(renderSpeech(silent, 'audacity')).toBe('');
  expect(JSON.parse(renderSpeech(silent, 'json'))).toMatchObject({ segments: [], noSpeech: true });
});

test('every format belongs to a task, and every task has json', () => {
  const belonging = new Set(JobTask.options.flatMap((task) => FORMATS_OF_TASK[task]));
  expect([...belonging].toSorted()).toEqual([...RESULT_FORMATS].toSorted());
  for (const task of JobTask.options) expect(FORMATS_OF_TASK[task]).toContain('json');
  expect(JobTask.options.map(defaultFormat)).toEqual(['txt', 'json']);
});

test('the files of one input never have the same name', () => {
  const names = RESULT_FORMATS.map(fileExtension);
  expect(new Set(names).size).toBe(RESULT_FORMATS.length);
  expect(fileExtension('audacity')).toBe('labels.txt');
});

test.each([
  [SPEECH, 'srt', 'a vad job has no srt; it has json, rttm, audacity'],
  [SPEECH, 'txt', 'json, rttm, audacity'],
  [transcriptOf('j', 'hello'), 'rttm', 'a transcribe job has no rttm; it has txt, json, srt, vtt'],
] as const)(
  'a format that a task does not have is refused with those that it has',
  (result, format, words) => {
    const refusal = expect.objectContaining({
      code: 'INVALID_REQUEST',
      message: expect.stringContaining(words),
    });
    expect(() => renderResult(result, format)).toThrow(refusal);
    expect(() => assertFormats(result.task, ['json', format])).toThrow(refusal);
  },
);

test.each(JobTask.options)('every format of %s can be written', (task) => {
  const result = task === 'vad' ? SPEECH : transcriptOf('j', 'hello');
  assertFormats(task, FORMATS_OF_TASK[task]);
  for (const format of FORMATS_OF_TASK[task]) expect(renderResult(result, format)).not.toBe('');
});
