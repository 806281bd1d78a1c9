import { expect, test } from 'vitest';
import { CUE_GAP_MS, layOutCues } from '../../../src/core/results/subtitle-cues.ts';
import { MAX_LINE_CHARACTERS, type TimedText } from '../../../src/core/results/subtitle-words.ts';
import { renderTranscript } from '../../../src/core/results/transcript-formats.ts';

const LONG =
  'The quick brown fox jumps over the lazy dog, and then it rests for a while under the old oak tree. ' +
  'After that it goes home. Nobody has seen it since, but there are rumours in the village about a fox that reads.';

function segment(start: number, end: number, text: string): TimedText {
  return { start, end, text };
}

function characters(line: string): number {
  return [...new Intl.Segmenter('en').segment(line)].length;
}

function plain(text: string): string {
  return text.replace(/\s+/g, '');
}

test('txt holds one segment a line and nothing else', () => {
  const segments = [segment(0, 1, ' Hello\nthere. '), segment(1, 2, '  '), segment(2, 3, 'Bye.')];
  expect(renderTranscript({ segments }, 'txt')).toBe('Hello there.\nBye.\n');
});

test('json is the stored transcript, unknown fields included', () => {
  const transcript = { jobId: 'j', segments: [segment(0, 1, 'x')], noSpeech: false };
  const rendered = renderTranscript(transcript, 'json');
  expect(JSON.parse(rendered)).toEqual(transcript);
  expect(rendered.endsWith('}\n')).toBe(true);
});

test('a short segment is one cue in srt and vtt', () => {
  const segments = [segment(1.5, 2.5, 'Hello there.'), segment(3, 4, 'Bye.')];
  expect(renderTranscript({ segments }, 'srt')).toBe(
    '1\n00:00:01,500 --> 00:00:02,500\nHello there.\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n',
  );
  expect(renderTranscript({ segments }, 'vtt')).toBe(
    'WEBVTT\n\n00:00:01.500 --> 00:00:02.500\nHello there.\n\n00:00:03.000 --> 00:00:04.000\nBye.\n',
  );
});

test('no speech gives valid empty files', () => {
  expect(renderTranscript({ segments: [] }, 'txt')).toBe('');
  expect(renderTranscript({ segments: [] }, 'srt')).toBe('');
  expect(renderTranscript({ segments: [] }, 'vtt')).toBe('WEBVTT\n');
  expect(renderTranscript({ segments: [] }, 'tsv')).toBe('start\tend\tspeaker\ttext\n');
});

test('a long segment becomes several readable cues that cover its time and keep every word', () => {
  const cues = layOutCues([segment(10, 24, LONG)]);
  expect(cues.length).toBeGreaterThan(2);
  for (const cue of cues) {
    expect(cue.lines.length).toBeLessThanOrEqual(2);
    for (const line of cue.lines) expect(characters(line)).toBeLessThanOrEqual(MAX_LINE_CHARACTERS);
  }
  expect(cues.flatMap((cue) => cue.lines).join(' ')).toBe(LONG);
  expect(cues[0]?.startMs).toBe(10_000);
  expect(cues.at(-1)?.endMs).toBe(24_000);
  cues.slice(1).forEach((cue, at) => {
    expect(cue.startMs - (cues[at]?.endMs ?? 0)).toBe(CUE_GAP_MS);
  });
});

test('a title or an initial ends no sentence', () => {
  const cues = layOutCues([
    segment(
      0,
      8,
      'And Mr. J. Dashwood had then leisure to consider. How much might there prudently be?',
    ),
  ]);
  expect(cues.map(({ lines }) => lines.join(' '))).toEqual([
    'And Mr. J. Dashwood had then leisure to consider.',
    'How much might there prudently be?',
  ]);
});

test('cues end at sentences where they can', () => {
  const cues = layOutCues([segment(0, 9, LONG)]);
  const ends = cues.map((cue) => cue.lines.at(-1) ?? '');
  expect(ends.filter((end) => end.endsWith('.')).length).toBe(2);
  expect(ends[0]?.endsWith(',')).toBe(true);
});

test('the share of time of a cue follows its characters', () => {
  const sentence = 'This sentence has exactly as many characters as the one that follows it.';
  const cues = layOutCues([segment(0, 10, `${sentence} ${sentence}`)]);
  expect(cues.map((cue) => [cue.startMs, cue.endMs])).toEqual([
    [0, 5000 - CUE_GAP_MS],
    [5000, 10_000],
  ]);
});

test('a word longer than a line is cut without losing or splitting a character', () => {
  const family = '👨‍👩‍👧‍👦';
  const text = `${'漢字'.repeat(60)}${family.repeat(50)}`;
  const cues = layOutCues([segment(0, 5, text)]);
  const lines = cues.flatMap((cue) => cue.lines);
  for (const line of lines) {
    expect(characters(line)).toBeLessThanOrEqual(MAX_LINE_CHARACTERS);
    expect(line.startsWith('\u200d')).toBe(false);
  }
  expect(lines.join('')).toBe(text);
});

test.each([
  ['overlapping', [segment(0, 5, 'one'), segment(4, 6, 'two')]],
  ['nested', [segment(0, 10, 'one'), segment(2, 3, 'two'), segment(2.5, 2.6, 'three')]],
  ['without duration', [segment(1, 1, 'one'), segment(1, 1, 'two'), segment(1, 1, 'three')]],
  ['reversed', [segment(5, 6, 'three'), segment(3, 2, 'one'), segment(4, 5, 'two')]],
  ['before zero', [segment(-1, 1, 'one'), segment(0, 2, 'two')]],
  ['long in no time', [segment(1, 1.001, LONG), segment(1.001, 2, LONG)]],
])('times never overlap or run backwards when segments are %s', (_case, segments) => {
  const cues = layOutCues(segments);
  let last = 0;
  for (const { startMs, endMs } of cues) {
    expect(startMs).toBeGreaterThanOrEqual(last);
    expect(endMs).toBeGreaterThan(startMs);
    expect(Number.isInteger(startMs) && Number.isInteger(endMs)).toBe(true);
    last = endMs;
  }
  const words = segments.toSorted((a, b) => a.start - b.start).map(({ text }) => text);
  expect(plain(cues.flatMap((cue) => cue.lines).join(''))).toBe(plain(words.join('')));
});

test('vtt text cannot become markup or a time line', () => {
  const vtt = renderTranscript({ segments: [segment(0, 1, 'a <b> & c --> d')] }, 'vtt');
  expect(vtt).toContain('a &lt;b&gt; &amp; c --&gt; d');
});

test('srt keeps the text as it is', () => {
  expect(renderTranscript({ segments: [segment(0, 1, 'a <b> & c')] }, 'srt')).toContain(
    'a <b> & c',
  );
});

test('more than 99 hours are written in full', () => {
  const segments = [segment(360_000 + 3723.004, 360_000 + 3725, 'late')];
  expect(renderTranscript({ segments }, 'srt')).toContain('101:02:03,004 --> 101:02:05,000');
  expect(renderTranscript({ segments }, 'vtt')).toContain('101:02:03.004 --> 101:02:05.000');
});
