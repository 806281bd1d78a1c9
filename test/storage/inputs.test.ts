import { once } from 'node:events';
import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { UrlLimits } from '../../src/core/worker/worker-settings.ts';
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

test('an upload is found by its id, and only where uploads are', async () => {
  const id = 'ab'.repeat(32);
  await mkdir(join(folder, 'ab'), { recursive: true });
  await writeFile(join(folder, 'ab', id), 'RIFF');
  const input = { kind: 'upload', id, name: 'talk.wav' } as const;
  await using found = await resolveInput(input, { uploadsDir: folder });
  expect(found).toMatchObject({ name: 'talk.wav', path: join(folder, 'ab', id), bytes: 4 });
  await expect(resolveInput(input)).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
});

test('a URL is fetched, its file is gone afterwards, and messages do not tell its query', async () => {
  const server = createServer((req, res) => {
    res.end(req.url?.startsWith('/empty') ? '' : 'RIFF');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on a port.
  const urls = UrlLimits.parse({ allowedNetworks: ['127.0.0.0/8'] });
  const input = (path: string) =>
    ({ kind: 'url', url: `http://127.0.0.1:${port}${path}`, name: 'talk.wav' }) as const;
  const found = await resolveInput(input('/a?sig=secret'), { urls });
  expect(found).toMatchObject({ name: 'talk.wav', bytes: 4 });
  await found[Symbol.asyncDispose]();
  await expect(stat(found.path)).rejects.toThrow();
  const empty = await resolveInput(input('/empty?sig=secret'), { urls }).catch((error) => error);
  expect(empty).toMatchObject({ code: 'INPUT_EMPTY' });
  expect(empty.message).not.toContain('secret');
  await expect(resolveInput(input('/a'))).rejects.toMatchObject({ code: 'INPUT_FORBIDDEN' });
  server.close();
});
