import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { startTestServer, type TestServer } from '../../support/http.ts';
import { temporaryFolder } from '../../support/redis.ts';

let server: TestServer;
let outside: Awaited<ReturnType<typeof temporaryFolder>>;

beforeAll(async () => {
  server = await startTestServer();
  outside = await temporaryFolder();
  const { inputRoot } = server;
  await writeFile(join(outside.path, 'secret.wav'), 'x');
  await writeFile(join(inputRoot, 'a.wav'), 'x');
  await mkdir(join(inputRoot, 'folder'));
  await mkdir(`${inputRoot}-beside`);
  await writeFile(`${inputRoot}-beside/b.wav`, 'x');
  await symlink(join(inputRoot, 'a.wav'), join(inputRoot, 'inner.wav'));
  await symlink(join(outside.path, 'secret.wav'), join(inputRoot, 'escape.wav'));
  await symlink(outside.path, join(inputRoot, 'way-out'));
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await outside[Symbol.asyncDispose]();
});

async function submit(path: string): Promise<string> {
  const response = await server.post('/v1/jobs', { input: { path } });
  if (response.ok) return JSON.parse(await response.text()).input.path;
  return ProblemDetails.parse(await response.json()).code;
}

test('a file inside the root is taken by its real path, through links inside, too', async () => {
  const real = join(server.inputRoot, 'a.wav');
  expect(await submit(real)).toBe(real);
  expect(await submit(join(server.inputRoot, 'inner.wav'))).toBe(real);
  expect(await submit(`${server.inputRoot}/folder/../a.wav`)).toBe(real);
});

test('whatever leads outside is forbidden, and is not told apart from what is not there', async () => {
  const { inputRoot } = server;
  const ways = [
    '/etc/passwd',
    '/no/such/file',
    join(outside.path, 'secret.wav'),
    `${inputRoot}/../run/none`,
    `${inputRoot}/folder/../../../etc/passwd`,
    `${inputRoot}-beside/b.wav`,
    join(inputRoot, 'escape.wav'),
    join(inputRoot, 'way-out', 'secret.wav'),
    join(inputRoot, 'way-out', 'none.wav'),
  ];
  for (const way of ways) expect([way, await submit(way)]).toEqual([way, 'INPUT_FORBIDDEN']);
});

test('inside the root, what is not there, a folder and a relative path are told apart', async () => {
  expect(await submit(join(server.inputRoot, 'none.wav'))).toBe('INPUT_NOT_FOUND');
  expect(await submit(join(server.inputRoot, 'folder'))).toBe('INPUT_NOT_FOUND');
  expect(await submit('a.wav')).toBe('INVALID_REQUEST');
  expect(await submit(`${server.inputRoot}/a\0.wav`)).toBe('INVALID_REQUEST');
});

test('without a root no path is taken', async () => {
  await using closed = await startTestServer({ settings: { inputRoots: [] } });
  const response = await closed.post('/v1/jobs', { input: { path: '/etc/passwd' } });
  expect(ProblemDetails.parse(await response.json()).code).toBe('INPUT_FORBIDDEN');
});
