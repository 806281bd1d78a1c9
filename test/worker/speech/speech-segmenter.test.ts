import { describe, expect, test } from 'vitest';
import {
  type SegmenterOptions,
  SpeechSegmenter,
} from '../../../src/worker/speech/speech-segmenter.ts';

const OPTIONS: SegmenterOptions = {
  windowSamples: 100,
  threshold: 0.5,
  minSpeechSamples: 200,
  minSilenceSamples: 300,
  targetSamples: 0,
  longSilenceSamples: 0,
  padSamples: 100,
  maxSegmentSamples: 2_200,
};

/** `s` speech, `.` silence, `~` between the two thresholds, `q` quiet speech just above silence. */
const LEVELS: Record<string, number> = { s: 0.9, '.': 0.1, '~': 0.4, q: 0.36 };

function segment(windows: string, options: Partial<SegmenterOptions> = {}, cutEvery = Infinity) {
  const segmenter = new SpeechSegmenter({ ...OPTIONS, ...options });
  const probabilities = [...windows].map((window) => LEVELS[window] ?? 0);
  const found = [];
  for (let i = 0; i < probabilities.length; i += cutEvery) {
    found.push(...segmenter.push(probabilities.slice(i, i + cutEvery)));
  }
  found.push(...segmenter.finish(windows.length * OPTIONS.windowSamples));
  return found.map((each) => [each.startSample, each.endSample]);
}

describe('SpeechSegmenter', () => {
  test('finds speech between pauses and keeps some audio around it', () => {
    expect(segment('....sssss.....ssss....')).toEqual([
      [300, 1_000],
      [1_300, 1_900],
    ]);
  });

  test('a pause shorter than minSilence stays inside the segment', () => {
    expect(segment('..sss..sss....')).toEqual([[100, 1_100]]);
  });

  test('a segment shorter than the target goes on across a pause, a longer one does not', () => {
    const joined = { targetSamples: 500, longSilenceSamples: 600 };
    expect(segment('..sss....ssssss....sss.....', joined)).toEqual([
      [100, 1_600],
      [1_800, 2_300],
    ]);
  });

  test('a long pause ends every segment', () => {
    const joined = { targetSamples: 500, longSilenceSamples: 600 };
    expect(segment('..sss......sss.....', joined)).toEqual([
      [100, 600],
      [1_000, 1_500],
    ]);
  });

  test('a wavering voice between the thresholds does not end a segment', () => {
    expect(segment('..sss~~~~~sss....')).toEqual([[100, 1_400]]);
  });

  test('a stretch shorter than minSpeech is dropped', () => {
    expect(segment('....s.....')).toEqual([]);
  });

  test('silence gives no segment and holds no audio back', () => {
    const segmenter = new SpeechSegmenter(OPTIONS);
    segmenter.push(new Float32Array(1_000));
    expect(segmenter.keepFrom).toBe(100_000 - OPTIONS.padSamples);
    expect(segmenter.finish(100_000)).toEqual([]);
  });

  test('speech up to the end of the input ends with the input, not after it', () => {
    expect(segment('..ssss')).toEqual([[100, 600]]);
  });

  test('endless speech is split at its quietest place, without a gap or an overlap', () => {
    const windows = `${'s'.repeat(15)}q${'s'.repeat(24)}`;
    const found = segment(windows);
    expect(found[0]).toEqual([0, 1_500]);
    expect(found.every(([start = 0, end = 0]) => end - start <= OPTIONS.maxSegmentSamples)).toBe(
      true,
    );
    for (let i = 1; i < found.length; i += 1) expect(found[i]?.[0]).toBe(found[i - 1]?.[1]);
    expect(found.at(-1)?.[1]).toBe(windows.length * 100);
  });

  test('the segments do not depend on how the windows are cut into calls', () => {
    const windows = `..sss..sss....${'s'.repeat(50)}...q.~s~s.....ssss`;
    const whole = segment(windows);
    for (const cutEvery of [1, 2, 3, 7, 31]) expect(segment(windows, {}, cutEvery)).toEqual(whole);
  });

  test('audio that a later segment needs is never before keepFrom', () => {
    const segmenter = new SpeechSegmenter(OPTIONS);
    let keepFrom = 0;
    for (const window of `....sss..s....${'s'.repeat(60)}....ss.....`) {
      for (const { startSample } of segmenter.push([LEVELS[window] ?? 0])) {
        expect(startSample).toBeGreaterThanOrEqual(keepFrom);
      }
      keepFrom = segmenter.keepFrom;
    }
  });
});
