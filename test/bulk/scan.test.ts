import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ScanEntry } from '../../src/bulk/scan.ts';
import { resolveRoots, scanInputs } from '../../src/bulk/scan.ts';
import { WavepoolError } from '../../src/core/errors.ts';

const NOBODY = 65_534;
/** The head of a canonical WAV file. */
const WAV_HEAD = Buffer.from('524946462400000057415645666d7420', 'hex');

let root = '';
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'wavepool-scan-'));
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function write(file: string, content: string | Buffer = 'x'): void {
  const target = path.join(root, file);
  mkdirSync(path.dirname(target), { recursive: true });
  writeFileSync(target, content);
}

async function scan(paths: readonly string[], out = 'out'): Promise<ScanEntry[]> {
  const roots = await resolveRoots(paths.map((given) => path.join(root, given)));
  const entries: ScanEntry[] = [];
  for await (const entry of scanInputs(roots, { out: path.join(root, out) })) entries.push(entry);
  return entries;
}

function outputs(entries: readonly ScanEntry[]): string[] {
  return entries.flatMap((entry) =>
    entry.kind === 'input' ? [path.join(entry.outputFolder, entry.outputName)] : [],
  );
}

function pathsOf(entries: readonly ScanEntry[], kind: ScanEntry['kind']): string[] {
  return entries
    .filter((entry) => entry.kind === kind)
    .map((entry) => path.relative(root, entry.path));
}

test('inputs come in a fixed order and their outputs mirror the tree', async () => {
  for (const file of ['in/b.wav', 'in/a.mp3', 'in/z/c.flac', 'in/m/d/e.ogg', 'in/m/a.m4a'])
    write(file);
  const entries = await scan(['in']);
  expect(outputs(entries)).toEqual(['a', 'b', 'm/a', 'm/d/e', 'z/c']);
  expect(entries[0]).toMatchObject({ kind: 'input', path: path.join(root, 'in/a.mp3'), bytes: 1 });
});

test('a file is an input by its extension or by its content, else it is skipped', async () => {
  write('in/broken.MP3', 'no audio at all');
  write('in/wave-without-extension', WAV_HEAD);
  write('in/wave-named.txt', WAV_HEAD);
  write('in/notes.txt', 'hello');
  write('in/utf16.txt', Buffer.from('\ufeffhello there', 'utf16le'));
  write('in/empty', '');
  write('in/score.mid', Buffer.from('4d546864000000060001000100604d54', 'hex'));
  write('in/module.ts', 'export const a = 1;');
  write('in/._song.wav', 'resource fork');
  const entries = await scan(['in']);
  expect(outputs(entries)).toEqual(['broken', 'wave-named', 'wave-without-extension']);
  expect(pathsOf(entries, 'skipped').length).toBe(6);
});

test('odd names of files and folders are kept', async () => {
  const odd = [
    'Привет',
    '日本語',
    '🎧',
    'e\u0301',
    '\u00e9',
    'a;b\'c"d',
    '#%20&',
    '-x',
    'a..b',
    'я'.repeat(100),
  ];
  for (const name of odd) write(`in/${name}/${name}.wav`);
  const entries = await scan(['in']);
  expect(outputs(entries).toSorted()).toEqual(odd.map((name) => `${name}/${name}`).toSorted());
});

test('inputs of one folder that would share an output keep their extension', async () => {
  for (const file of ['in/a.wav', 'in/a.mp3', 'in/a.txt', 'in/sub/a.wav']) write(file);
  expect(outputs(await scan(['in']))).toEqual(['a.mp3', 'a.wav', 'sub/a']);
});

test('the output directory and the state folder are not scanned, but an argument always is', async () => {
  for (const file of ['in/a.wav', 'in/out/b.wav', 'in/.wavepool/c.wav', 'in/sub/.wavepool/d.wav'])
    write(file);
  expect(outputs(await scan(['in'], 'in/out'))).toEqual(['a']);
  expect(outputs(await scan(['in'], 'in'))).toEqual(['a', 'out/b']);
});

test('symbolic links to files and folders are followed, loops end', async () => {
  write('elsewhere/linked.wav');
  write('in/sub/b.wav');
  symlinkSync('../elsewhere/linked.wav', path.join(root, 'in/a.wav'));
  symlinkSync('../../in', path.join(root, 'in/sub/loop'));
  symlinkSync('self', path.join(root, 'in/self'));
  symlinkSync('../elsewhere', path.join(root, 'in/folder'));
  expect(outputs(await scan(['in']))).toEqual(['a', 'folder/linked', 'sub/b']);
});

test('a dangling link named like audio is a problem, another one is skipped', async () => {
  write('in/a.wav');
  symlinkSync('gone', path.join(root, 'in/b.wav'));
  symlinkSync('gone', path.join(root, 'in/c.txt'));
  const entries = await scan(['in']);
  expect(pathsOf(entries, 'problem')).toEqual(['in/b.wav']);
  expect(pathsOf(entries, 'skipped')).toEqual(['in/c.txt']);
  expect(outputs(entries)).toEqual(['a']);
});

test('a folder that cannot be read is a problem and the rest goes on', async () => {
  for (const file of ['in/a.wav', 'in/closed/b.wav', 'in/z.wav']) write(file);
  const closed = path.join(root, 'in/closed');
  chmodSync(closed, 0o000);
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) chownSync(root, NOBODY, NOBODY);
  if (isRoot) process.seteuid?.(NOBODY);
  try {
    const entries = await scan(['in']);
    expect(outputs(entries)).toEqual(['a', 'z']);
    expect(pathsOf(entries, 'problem')).toEqual(['in/closed']);
    expect(entries.at(-1)).toMatchObject({ code: 'INPUT_NOT_FOUND' });
  } finally {
    if (isRoot) process.seteuid?.(0);
    chmodSync(closed, 0o700);
  }
});

test('a name that is not UTF-8 is a problem', async () => {
  write('in/a.wav');
  execFileSync('sh', ['-c', 'printf x > "$0/$(printf \'b\\377.wav\')"', path.join(root, 'in')]);
  const entries = await scan(['in']);
  expect(pathsOf(entries, 'problem').length).toBe(1);
  expect(outputs(entries)).toEqual(['a']);
});

test('several arguments never share an output', async () => {
  for (const file of ['x/clips/a.wav', 'y/clips/a.wav', 'x/b.wav', 'y/b.wav', 'x/c.wav'])
    write(file);
  const found = outputs(await scan(['x/clips', 'y/clips', 'x/b.wav', 'y/b.wav', 'x/c.wav']));
  expect(new Set(found).size).toBe(5);
  expect(found.filter((name) => /^clips~[0-9a-f]{8}\/a$/.test(name)).length).toBe(2);
  expect(found.filter((name) => /^b\.wav~[0-9a-f]{8}$/.test(name)).length).toBe(2);
  expect(found).toContain('c');
});

test('an input that several arguments reach is taken once', async () => {
  for (const file of ['in/a.wav', 'in/sub/b.wav']) write(file);
  expect(outputs(await scan(['in', 'in', 'in/a.wav', 'in/sub'])).toSorted()).toEqual([
    'a',
    'in/sub/b',
  ]);
});

test('an argument that does not exist is refused before anything is scanned', async () => {
  write('in/a.wav');
  const missing = resolveRoots([path.join(root, 'in'), path.join(root, 'gone')]);
  await expect(missing).rejects.toThrow(WavepoolError);
  await expect(missing).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
});

test('an aborted scan stops', async () => {
  for (const file of ['in/a.wav', 'in/sub/b.wav']) write(file);
  const abort = new AbortController();
  const roots = await resolveRoots([path.join(root, 'in')]);
  const entries = scanInputs(roots, { out: path.join(root, 'out'), signal: abort.signal });
  await entries.next();
  abort.abort();
  await expect(entries.next()).rejects.toThrow();
});
