/** docs/contract.md says of each promise which test shows it: the tests must be there, and no promise without one. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
const DOCUMENT = path.join(ROOT, 'docs/contract.md');
const LINK = /\[[DPU]\]\((?<file>[^ )]+) "(?<title>[^"]+)"\)/;

const lines = readFileSync(DOCUMENT, 'utf8').split('\n');
const links = lines.flatMap((line) =>
  [...line.matchAll(new RegExp(LINK, 'g'))].map(({ groups = {} }) => groups),
);

/** Tables that promise something; the one of the states only explains words. */
function promisingTables(): string[][][] {
  const tables: string[][][] = [];
  for (const [index, line] of lines.entries()) {
    if (!line.startsWith('|')) continue;
    if (!lines[index - 1]?.startsWith('|')) tables.push([]);
    tables.at(-1)?.push(line.slice(1, -1).split('|'));
  }
  return tables.filter(([header = []]) => header[0]?.trim() !== 'State');
}

test('every linked test is in its file', () => {
  expect(links.length).toBeGreaterThan(100);
  const missing = links.filter(({ file = '', title = '' }) => {
    const source = path.resolve(path.dirname(DOCUMENT), file);
    // A title of many cases has placeholders.
    return !existsSync(source) || !readFileSync(source, 'utf8').includes(title.split('%')[0] ?? '');
  });
  expect(missing).toEqual([]);
});

test('every promise is labelled and linked', () => {
  const tables = promisingTables();
  expect(tables.length).toBeGreaterThanOrEqual(7);
  for (const [header = [], , ...rows] of tables) {
    // In the two matrices each cell is a promise of its own, elsewhere each row is one.
    const isMatrix = header.some((name) => name.trim().toLowerCase().startsWith('unload'));
    for (const row of rows) {
      const promises = isMatrix ? row.slice(1) : [row.slice(1).join(' ')];
      for (const promise of promises) expect(promise, row[0]).toMatch(LINK);
    }
  }
});
