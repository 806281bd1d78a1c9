import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resolveInput } from '../../src/storage/inputs.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'wavepool-inputs-'));
});
afterAll(() => rm(folder, { recursive: true }));

function resolve(name: string) {
  return resolveInput({ kind: 'path', path: join(folder, name) });
}

test('a file is found under any name, and through a link', async () => {
  const name = "-ä ;'#%20&…😀.wav";
  await writeFile(join(folder, name), 'RIFF');
  await symlink(join(folder, name), join(folder, 'link.wav'));
  expect(await resolve(name)).toMatchObject({ name, path: join(folder, name), bytes: 4 });
  expect(await resolve('link.wav')).toMatchObject({ name: 'link.wav', bytes: 4 });
});

test.each([
  ['missing.wav', 'INPUT_NOT_FOUND'],
  ['folder', 'INPUT_NOT_FOUND'],
  ['file/inside.wav', 'INPUT_NOT_FOUND'],
  ['dangling', 'INPUT_NOT_FOUND'],
  [`${'x'.repeat(300)}.wav`, 'INPUT_NOT_FOUND'],
  ['empty.wav', 'INPUT_EMPTY'],
])('%s ends with %s', async (name, code) => {
  await mkdir(join(folder, 'folder'), { recursive: true });
  await writeFile(join(folder, 'file'), 'x');
  await writeFile(join(folder, 'empty.wav'), '');
  await rm(join(folder, 'dangling'), { force: true });
  await symlink(join(folder, 'nowhere'), join(folder, 'dangling'));
  await expect(resolve(name)).rejects.toMatchObject({ code });
});
