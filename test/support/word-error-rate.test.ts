import { expect, test } from 'vitest';
import { normalizedWords, wordErrorRate, wordErrors } from './word-error-rate.ts';

test('case, punctuation, hyphens and titles do not count', () => {
  expect(normalizedWords("He’s NOT ill-disposed, Mr. O'Neil!")).toEqual([
    'hes',
    'not',
    'ill',
    'disposed',
    'mister',
    'oneil',
  ]);
});

test('substitutions, insertions and deletions count one each', () => {
  expect(wordErrors('a b c d', 'a b c d')).toEqual({ errors: 0, words: 4 });
  expect(wordErrors('a b c d', 'a x c d')).toEqual({ errors: 1, words: 4 });
  expect(wordErrors('a b c d', 'a b b c d')).toEqual({ errors: 1, words: 4 });
  expect(wordErrors('a b c d', 'b d')).toEqual({ errors: 2, words: 4 });
  expect(wordErrors('a b', '')).toEqual({ errors: 2, words: 2 });
  expect(wordErrors('', 'a b')).toEqual({ errors: 2, words: 0 });
});

test('the rate is over all pairs together', () => {
  expect(
    wordErrorRate([
      ['a b c d', 'a b c d'],
      ['a b c d', 'a x'],
    ]),
  ).toBe(3 / 8);
  expect(wordErrorRate([])).toBe(0);
});
