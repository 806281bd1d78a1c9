/** How transcripts are compared with a reference: the word error rate, after the usual normalization. */

/** Spellings that mean the same and that no recognizer can tell apart by ear. */
const SAME_WORD = new Map([
  ['mr', 'mister'],
  ['mrs', 'missus'],
  ['dr', 'doctor'],
]);

/** Lower case, no punctuation, hyphens split, titles spelled out. */
export function normalizedWords(text: string): string[] {
  return text
    .toLowerCase()
    .replaceAll(/['’]/g, '')
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => SAME_WORD.get(word) ?? word);
}

export interface WordErrors {
  /** Substitutions, insertions and deletions of the best alignment (Levenshtein distance over words). */
  readonly errors: number;
  /** Words of the reference. */
  readonly words: number;
}

export function wordErrors(reference: string, hypothesis: string): WordErrors {
  const expected = normalizedWords(reference);
  const heard = normalizedWords(hypothesis);
  let previous = Array.from({ length: heard.length + 1 }, (_, i) => i);
  for (const [row, word] of expected.entries()) {
    const current = [row + 1];
    for (const [column, other] of heard.entries()) {
      const substitution = (previous[column] ?? 0) + (word === other ? 0 : 1);
      const deletion = (previous[column + 1] ?? 0) + 1;
      const insertion = (current[column] ?? 0) + 1;
      current.push(Math.min(substitution, deletion, insertion));
    }
    previous = current;
  }
  return { errors: previous.at(-1) ?? 0, words: expected.length };
}

/** Errors per reference word over all pairs together, 0…; 0 when there is nothing to get wrong. */
export function wordErrorRate(pairs: Iterable<readonly [reference: string, hypothesis: string]>) {
  let errors = 0;
  let words = 0;
  for (const [reference, hypothesis] of pairs) {
    const found = wordErrors(reference, hypothesis);
    errors += found.errors;
    words += found.words;
  }
  return words === 0 ? 0 : errors / words;
}
