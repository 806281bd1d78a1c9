import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { OutputFolder } from '../../src/bulk/output-folder.ts';
import { identifySelf } from '../../src/core/files/process-identity.ts';

let root = '';
let out = '';
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'wavepool-out-'));
  out = path.join(root, 'out');
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

async function withFolder<T>(use: (folder: OutputFolder) => Promise<T>): Promise<T> {
  const folder = await OutputFolder.open(out);
  try {
    return await use(folder);
  } finally {
    await folder.close();
  }
}

test('a file appears whole, in new sub-folders, and replaces an older one', async () => {
  await withFolder(async (folder) => {
    expect(await folder.write('a/b/c.txt', 'first')).toBe(5);
    expect(await folder.write('a/b/c.txt', 'zwölf')).toBe(6);
    const output = { format: 'txt', path: 'a/b/c.txt', bytes: 6 } as const;
    expect(await folder.holds(output)).toBe(true);
    expect(await folder.holds({ ...output, bytes: 5 })).toBe(false);
    expect(await folder.holds({ ...output, path: 'a/other.txt' })).toBe(false);
  });
  expect(readFileSync(path.join(out, 'a/b/c.txt'), 'utf8')).toBe('zwölf');
  expect(readdirSync(path.join(out, '.wavepool/tmp'))).toEqual([]);
});

test('a path outside the folder is never written', async () => {
  await withFolder(async (folder) => {
    for (const name of ['../x.txt', '/tmp/x.txt', 'a/../../x.txt', '.'])
      await expect(folder.write(name, 'x')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });
  expect(readdirSync(root)).toEqual(['out']);
});

test('the run keeps its id, also after its file was damaged it has a new one', async () => {
  const first = await withFolder((folder) => Promise.resolve(folder.runId));
  expect(await withFolder((folder) => Promise.resolve(folder.runId))).toBe(first);
  writeFileSync(path.join(out, '.wavepool/run.json'), '{"runId":');
  expect(await withFolder((folder) => Promise.resolve(folder.runId))).not.toBe(first);
});

test('a folder in use is refused, and free again after its user closed it or died', async () => {
  const lock = path.join(out, '.wavepool/lock');
  const held = await OutputFolder.open(out);
  await expect(OutputFolder.open(out)).rejects.toMatchObject({ code: 'OUTPUT_BUSY' });
  await held.close();
  const { pid = 0 } = spawnSync('true');
  const dead = { ...(await identifySelf()), pid };
  writeFileSync(lock, JSON.stringify({ nonce: 'left', process: dead }));
  await withFolder((folder) => folder.write('a.txt', 'a'));
});

test('what an earlier run left half-written is removed', async () => {
  mkdirSync(path.join(out, '.wavepool/tmp'), { recursive: true });
  writeFileSync(path.join(out, '.wavepool/tmp/0-left'), 'half');
  await withFolder(() => Promise.resolve());
  expect(readdirSync(path.join(out, '.wavepool/tmp'))).toEqual([]);
});

test('a folder that cannot be made is a storage failure', async () => {
  writeFileSync(out, 'a file');
  await expect(OutputFolder.open(out)).rejects.toMatchObject({ code: 'STORAGE_FULL' });
});
