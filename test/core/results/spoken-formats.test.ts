/** Speakers and the times of words in the formats of transcripts, and the limits of subtitles over many transcripts. */
import { describe, expect, test } from 'vitest';
import {
  layOutCues,
  MAX_CUE_MS,
  MAX_READING_SPEED,
} from '../../../src/core/results/subtitle-cues.ts';
import { MAX_LINE_CHARACTERS, type TimedText } from '../../../src/core/results/subtitle-words.ts';
import { renderTranscript } from '../../../src/core/results/transcript-formats.ts';
import { parseSrt, parseVtt } from '../../support/subtitles.ts';

/** A segment whose words share its time, with the given speaker. */
function spoken(start: number, end: number, text: string, speaker?: string): TimedText {
  const texts = text.split(' ');
  const step = (end - start) / texts.length;
  const words = texts.map((word, at) => ({
    start: start + at * step,
    end: start + (at + 1) * step,
    text: word,
  }));
  return { start, end, text, words, ...(speaker === undefined ? {} : { speaker }) };
}

const CALL = [
  spoken(0, 2, 'Good morning. Hello?', 'agent'),
  spoken(2.5, 4, 'Hi there.', 'caller'),
  spoken(4.5, 6, 'My name is Ada.', 'caller'),
  spoken(7, 8, 'Thanks.', 'agent'),
];

test('txt has a line for each turn of a speaker', () => {
  expect(renderTranscript({ segments: CALL }, 'txt')).toBe(
    'agent: Good morning. Hello?\ncaller: Hi there. My name is Ada.\nagent: Thanks.\n',
  );
});

test('tsv has a row for each segment, and no tab or line break inside a field', () => {
  const segments = [spoken(0, 1.25, 'a b', 'one\ttwo'), { start: 2, end: 3, text: 'c\td\ne' }];
  expect(renderTranscript({ segments }, 'tsv')).toBe(
    'start\tend\tspeaker\ttext\n0.000\t1.250\tone two\ta b\n2.000\t3.000\t\tc d e\n',
  );
});

test('srt names the speaker where that changes', () => {
  const cues = parseSrt(renderTranscript({ segments: CALL }, 'srt'));
  expect(cues.map(({ lines }) => lines.join(' '))).toEqual([
    'agent: Good morning. Hello?',
    'caller: Hi there.',
    'My name is Ada.',
    'agent: Thanks.',
  ]);
});

test('vtt has a voice for each cue and a time for each word but the first', () => {
  const segments = [spoken(1, 4, 'one two three', 'A & <B>')];
  expect(renderTranscript({ segments }, 'vtt')).toBe(
    'WEBVTT\n\n00:00:01.000 --> 00:00:04.000\n' +
      '<v A &amp; &lt;B&gt;>one <00:00:02.000>two <00:00:03.000>three\n',
  );
});

test('words that are not those of the text are left aside', () => {
  const segments = [{ ...spoken(0, 2, 'one two'), text: 'One, two.' }];
  expect(renderTranscript({ segments }, 'vtt')).toContain('\nOne, two.\n');
});

test('a cue never reaches across a pause, and begins with its first word', () => {
  const words = [
    { start: 0, end: 0.4, text: 'Well' },
    { start: 5, end: 5.5, text: 'then.' },
  ];
  const cues = layOutCues([{ start: 0, end: 6, text: 'Well then.', words }]);
  expect(cues.map(({ startMs, lines }) => [startMs, lines])).toEqual([
    [0, ['Well']],
    [5_000, ['then.']],
  ]);
});

test('a cue that is too short to be read goes on into the pause after it', () => {
  const text = 'This was said much too fast for anybody to read it.';
  const [first, second] = layOutCues([spoken(0, 1, text), spoken(2, 3, 'Yes.')]);
  expect(first?.endMs).toBe(1_920);
  expect(second).toMatchObject({ startMs: 2_000, endMs: 3_000 });
  const [alone] = layOutCues([spoken(0, 1, text)]);
  const shown = alone?.lines.join('').length ?? 0;
  expect(alone?.endMs).toBe(Math.ceil((1_000 * shown) / MAX_READING_SPEED));
});

test('no cue goes on after the audio has ended', () => {
  const segments = [spoken(0, 0.4, 'Yes.')];
  const vtt = renderTranscript({ segments, audio: { durationSeconds: 0.7 } }, 'vtt');
  expect(parseVtt(vtt)).toMatchObject([{ startMs: 0, endMs: 700 }]);
});

test('somebody who speaks while another does is shown in between', () => {
  const long = spoken(0, 12, 'This is a long story. And it goes on. There is no end to it.', 'A');
  const cues = layOutCues([long, spoken(6, 6.5, 'Oh!', 'B')]);
  const speakers = cues.map(({ speaker }) => speaker);
  expect(speakers[0]).toBe('A');
  expect(speakers.at(-1)).toBe('A');
  expect(speakers).toContain('B');
});

/** The same numbers in [0, 1) for the same seed. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const SYLLABLES = [
  'a',
  'no',
  'ther',
  'ing',
  'well',
  'and',
  'über',
  '漢字',
  'can’t',
  '<b>',
  '👨‍👩‍👧',
];

function transcriptOf(seed: number): TimedText[] {
  const next = random(seed);
  const speakers = [undefined, 'agent', 'a caller with quite a long name, from far away'];
  let at = 0;
  return Array.from({ length: 1 + Math.floor(next() * 8) }, () => {
    at += (next() - 0.3) * 3;
    const start = Math.max(0, at);
    const words: { start: number; end: number; text: string }[] = [];
    for (let count = 1 + Math.floor(next() ** 2 * 60); count > 0; count -= 1) {
      const parts = Array.from(
        { length: 1 + Math.floor(next() * 4) },
        () => SYLLABLES[Math.floor(next() * SYLLABLES.length)],
      );
      const text = parts.join('') + (next() < 0.15 ? '.' : next() < 0.1 ? ',' : '');
      at = Math.max(start, at) + (next() < 0.05 ? 4 * next() : 0.1 * next());
      const end = at + 0.05 + 0.5 * next();
      words.push({ start: at, end, text });
      at = end;
    }
    const text = words.map((word) => word.text).join(' ');
    const speaker = seed % 3 === 0 ? undefined : speakers[1 + Math.floor(next() * 2)];
    const whole = { start, end: at, text, ...(speaker === undefined ? {} : { speaker }) };
    return next() < 0.7 ? { ...whole, words } : whole;
  });
}

const characters = (line: string) => [...new Intl.Segmenter('en').segment(line)].length;
const wordsIn = (lines: readonly string[]) => lines.join(' ').split(/\s+/).join('');

describe('over many transcripts', () => {
  const seeds = Array.from({ length: 150 }, (_, seed) => seed);

  test('cues keep every word and the limits of subtitles, and never overlap', () => {
    for (const seed of seeds) {
      const segments = transcriptOf(seed);
      for (const namesSpeakers of [false, true]) {
        const cues = layOutCues(segments, { namesSpeakers });
        let reached = 0;
        for (const { startMs, endMs, lines } of cues) {
          expect(startMs, `seed ${seed}`).toBeGreaterThanOrEqual(reached);
          expect(endMs).toBeGreaterThan(startMs);
          expect(lines.length).toBeLessThanOrEqual(2);
          for (const line of lines)
            expect(characters(line)).toBeLessThanOrEqual(MAX_LINE_CHARACTERS);
          reached = endMs;
        }
        if (namesSpeakers) continue;
        const shown = cues.map(({ lines }) => wordsIn(lines)).join('');
        const said = segments.map(({ text }) => wordsIn([text])).join('');
        expect([...shown].sort().join('')).toBe([...said].sort().join(''));
      }
    }
  });

  test('of several timed words none is shown for longer than a cue may last, and none too short without need', () => {
    for (const seed of seeds) {
      const cues = layOutCues(transcriptOf(seed));
      for (const [at, { startMs, endMs, timedLines, lines }] of cues.entries()) {
        if (timedLines !== undefined && timedLines.flat().length > 1)
          expect(endMs - startMs, `seed ${seed}`).toBeLessThanOrEqual(MAX_CUE_MS + 1);
        const next = cues[at + 1]?.startMs ?? Number.POSITIVE_INFINITY;
        const readMs = (1_000 * characters(lines.join(''))) / MAX_READING_SPEED;
        const wanted = Math.min(MAX_CUE_MS, Math.max(1_000, readMs));
        // Shorter only where the next cue stands in the way.
        if (next - startMs > wanted + 100)
          expect(endMs - startMs).toBeGreaterThanOrEqual(Math.floor(wanted));
      }
    }
  });

  test('the times of words rise within a cue and lie inside it', () => {
    for (const seed of seeds) {
      for (const { startMs, endMs, lines } of parseVtt(
        renderTranscript({ segments: transcriptOf(seed) }, 'vtt'),
      )) {
        let reached = startMs;
        for (const [, h, m, s] of lines.join(' ').matchAll(/<(\d\d):(\d\d):(\d\d\.\d{3})>/g)) {
          const ms = Math.round(1_000 * (3_600 * Number(h) + 60 * Number(m) + Number(s)));
          expect(ms, `seed ${seed}`).toBeGreaterThan(reached);
          expect(ms).toBeLessThan(endMs);
          reached = ms;
        }
      }
    }
  });
});
