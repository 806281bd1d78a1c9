import { expect, test } from 'vitest';
import { folderNames, outputFileName, outputNames } from '../../src/bulk/output-names.ts';

function names(fileNames: readonly string[], folders: readonly string[] = []): string[] {
  return outputNames(
    fileNames.map((fileName, at) => ({ fileName, identity: `/${at}/${fileName}` })),
    folders,
  );
}

test('an output keeps the stem of its input', () => {
  const odd = [
    'Привет',
    '日本',
    '🎧 ☂️',
    '-x',
    'a\'b"c',
    'a;b#c%20d&e',
    'a..b',
    'two words',
    '.hidden',
  ];
  expect(names(odd.map((stem) => `${stem}.wav`))).toEqual(odd);
});

test('a file without an extension keeps its name', () => {
  expect(names(['talk', '.wav'])).toEqual(['talk', '.wav']);
});

test('inputs that would share an output all keep their extension', () => {
  expect(names(['a.wav', 'b.wav', 'a.mp3'])).toEqual(['a.wav', 'b', 'a.mp3']);
});

test.each([
  ['case', ['Talk.wav', 'talk.mp3'], ['Talk.wav', 'talk.mp3']],
  ['case with one extension', ['Talk.wav', 'talk.wav'], ['Talk.wav', 'talk.wav']],
  [
    'the encoding of an accent',
    ['caf\u00e9.wav', 'cafe\u0301.wav'],
    ['caf\u00e9.wav', 'cafe\u0301.wav'],
  ],
])('names that differ only in %s stay apart', (_what, inputs, expected) => {
  expect(names(inputs)).toEqual(expected);
});

test('an extension kept by one input never takes the name of another', () => {
  expect(names(['a.wav', 'a.mp3', 'a.wav.mp3'])).toEqual(['a.wav', 'a.mp3', 'a.wav.mp3']);
});

test('an output is never named like a sub-folder', () => {
  expect(names(['a.wav'], ['A.TXT'])).toEqual(['a.wav']);
  expect(names(['a.wav'], ['a.json', 'a.wav.json'])[0]).toMatch(/^a\.wav~[0-9a-f]{8}$/);
});

test('equal file names of different folders are told apart by a stable hash', () => {
  const inputs = [
    { fileName: 'a.wav', identity: '/x/a.wav' },
    { fileName: 'a.wav', identity: '/y/a.wav' },
  ];
  const [first, second] = outputNames(inputs);
  expect(first).toMatch(/^a\.wav~[0-9a-f]{8}$/);
  expect(second).not.toBe(first);
  expect(outputNames(inputs.toReversed())).toEqual([second, first]);
});

test('a name that fits is kept in full, a longer one is cut between characters with a hash', () => {
  const fits = 'я'.repeat(100);
  expect(outputFileName(fits, 'json')).toBe(`${fits}.json`);
  expect(outputFileName('x'.repeat(251), 'txt')).toBe(`${'x'.repeat(251)}.txt`);

  const long = `${'🎧'.repeat(62)}abc`;
  const cut = outputFileName(long, 'json');
  expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(255);
  expect(cut).toMatch(/^(🎧)+~[0-9a-f]{8}\.json$/u);
  expect(outputFileName(long, 'json')).toBe(cut);
  expect(outputFileName(`${long.slice(0, -1)}d`, 'json')).not.toBe(cut);
});

test('input directories of the same name get different folders', () => {
  expect(folderNames(['/x/clips', '/y/talks'])).toEqual(['clips', 'talks']);
  const [first, second] = folderNames(['/x/clips', '/y/Clips']);
  expect(first).toMatch(/^clips~[0-9a-f]{8}$/);
  expect(second).toMatch(/^Clips~[0-9a-f]{8}$/);
  expect(first?.toLowerCase()).not.toBe(second?.toLowerCase());
  expect(folderNames(['/'])).toEqual(['root']);
});
