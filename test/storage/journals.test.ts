import { appendFile, readdir, readFile, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LocalJournals } from '../../src/storage/journals.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { temporaryFolder } from '../support/redis.ts';

const DAY_MS = 86_400_000;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let root: string;
let journals: LocalJournals;

beforeEach(async () => {
  folder = await temporaryFolder();
  root = join(folder.path, 'journals');
  journals = new LocalJournals(root);
});
afterEach(() => folder[Symbol.asyncDispose]());

async function write(
  jobId: string,
  fingerprint: string,
  lines: readonly string[],
): Promise<string> {
  const journal = await journals.open(jobId, fingerprint);
  await journal.append(lines, true);
  await journal.close();
  const [file = ''] = await files(root);
  return join(root, file);
}

async function files(of: string): Promise<string[]> {
  const entries = await readdir(of, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(of.length + 1));
}

async function linesOf(jobId: string, fingerprint: string): Promise<readonly string[]> {
  const journal = await journals.open(jobId, fingerprint);
  await journal.close();
  return journal.lines;
}

test('lines are found again, in order, by the same job and fingerprint alone', async () => {
  await write('job', 'aa', ['one', 'two']);
  expect(await journals.holds('job')).toBe(true);
  expect(await journals.holds('another')).toBe(false);
  expect(await linesOf('another', 'aa')).toEqual([]);
  expect(await linesOf('job', 'aa')).toEqual(['one', 'two']);
});

test('a journal of another fingerprint is not read, and gone', async () => {
  await write('job', 'aa', ['one']);
  expect(await linesOf('job', 'bb')).toEqual([]);
  expect(await linesOf('job', 'aa')).toEqual([]);
});

test('a journal that nothing was written to leaves no file', async () => {
  expect(await linesOf('job', 'aa')).toEqual([]);
  expect(await files(root)).toEqual([]);
});

test('every tear of the last line loses that line and no other, also after more was written', async () => {
  const path = await write('job', 'aa', ['one', 'two']);
  const whole = await readFile(path);
  const second = whole.indexOf('\n') + 1;
  for (let length = second; length < whole.length; length += 1) {
    await writeFile(path, whole);
    await truncate(path, length);
    // Only the line feed is missing: the line is whole.
    const kept = length === whole.length - 1 ? ['one', 'two'] : ['one'];
    expect(await linesOf('job', 'aa')).toEqual(kept);
    await write('job', 'aa', ['three']);
    expect(await linesOf('job', 'aa')).toEqual([...kept, 'three']);
  }
});

test('bytes that were changed on the disk cost their line and no other', async () => {
  const path = await write('job', 'aa', ['one', 'two', 'three']);
  const bytes = await readFile(path);
  bytes[bytes.indexOf('two')] = 0;
  await writeFile(path, bytes);
  await appendFile(path, '\0\0\0\0\n');
  expect(await linesOf('job', 'aa')).toEqual(['one', 'three']);
});

test('two attempts that write at once lose nothing of each other', async () => {
  const [first, second] = [await journals.open('job', 'aa'), await journals.open('job', 'aa')];
  await first.append(['a1'], false);
  await second.append(['b1'], false);
  await first.append(['a2'], false);
  await Promise.all([first.close(), second.close()]);
  expect(await linesOf('job', 'aa')).toEqual(['a1', 'b1', 'a2']);
});

test('a journal goes a week after it was written to, and not before', async () => {
  const path = await write('job', 'aa', ['one']);
  let now = Date.now();
  const later = new LocalJournals(root, () => now);
  now += 6 * DAY_MS;
  await later.sweep();
  expect(await files(root)).toHaveLength(1);
  const old = new Date(Date.now() - 8 * DAY_MS);
  await utimes(path, old, old);
  await utimes(join(path, '..'), old, old);
  await later.sweep();
  expect(await readdir(root)).toEqual([]);
});

test('a job that is forgotten leaves no journal, and a result store sweeps old ones', async () => {
  const results = await LocalResultStore.open(folder.path);
  const path = await write('job', 'aa', ['one']);
  expect(await results.journals.holds('job')).toBe(true);
  expect(await results.remove(results.keyOf('job'))).toBe(false);
  expect(await results.journals.holds('job')).toBe(false);
  await write('job', 'aa', ['one']);
  const old = new Date(Date.now() - 8 * DAY_MS);
  await utimes(path, old, old);
  await utimes(join(path, '..'), old, old);
  const reopened = await LocalResultStore.open(folder.path);
  expect(await reopened.journals.holds('job')).toBe(false);
});
