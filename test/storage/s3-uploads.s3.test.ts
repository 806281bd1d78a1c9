import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { parseObjectAddress, parseObjectPlace } from '../../src/core/s3-settings.ts';
import { openStorage, type Storage } from '../../src/storage/open-storage.ts';
import type { UploadStore } from '../../src/storage/upload-store.ts';
import { S3Server } from '../support/s3.ts';

// The time that a process takes to start is no concern of these tests.
vi.setConfig({ testTimeout: 60_000 });

const DAY_MS = 86_400_000;
const MEGABYTE = 1024 ** 2;

let server: S3Server;
let bucket: string;
let storage: Storage;
let uploads: UploadStore;
beforeAll(async () => {
  server = await S3Server.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  bucket = await server.makeBucket();
  const inputRoots = [parseObjectPlace(`s3://${bucket}/wave/pool/uploads`)];
  storage = await openStorage({ s3: server.settings(bucket, { inputRoots }), resultsDir: '/no' });
  uploads = await storage.openUploads('/no');
});

function pieces(bytes: Buffer, size = 300_000): AsyncIterable<Buffer> {
  const starts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => n * size);
  return Readable.from(starts.map((start) => bytes.subarray(start, start + size)));
}

function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

async function stored(folder: string): Promise<string[]> {
  const prefix = `wave/pool/${folder}/`;
  const keys = await server.keys(bucket);
  return keys.filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
}

async function readUpload(id: string): Promise<Buffer> {
  if (storage.places.fetchUpload === undefined) throw new Error('uploads are not in a bucket');
  await using file = await storage.places.fetchUpload(id);
  return await readFile(file.path);
}

test('an upload of several parts is stored once under its hash, and read back as it was', async () => {
  const bytes = Buffer.alloc(20 * MEGABYTE + 17, 'audio');
  const first = await uploads.write(pieces(bytes), { maxBytes: 30 * MEGABYTE });
  expect(first).toMatchObject({ id: sha256Of(bytes), bytes: bytes.length });
  expect(await uploads.write(pieces(bytes), { maxBytes: 30 * MEGABYTE })).toMatchObject({
    id: first.id,
  });
  expect(await stored('uploads')).toEqual([`${first.id.slice(0, 2)}/${first.id}`]);
  expect(await stored('staged')).toEqual([]);
  expect((await readUpload(first.id)).equals(bytes)).toBe(true);
});

test('an upload that is too large, empty or broken off leaves nothing', async () => {
  async function* broken(): AsyncGenerator<Buffer> {
    yield* pieces(Buffer.alloc(9 * MEGABYTE));
    throw Object.assign(new Error('the sender has gone'), { code: 'ECONNRESET' });
  }
  const write = (source: AsyncIterable<Buffer>) =>
    uploads.write(source, { maxBytes: 20 * MEGABYTE });
  await expect(write(broken())).rejects.toThrow('the sender has gone');
  const large = pieces(Buffer.alloc(21 * MEGABYTE), MEGABYTE);
  await expect(write(large)).rejects.toMatchObject({ code: 'INPUT_TOO_LARGE' });
  await expect(write(pieces(Buffer.alloc(0)))).rejects.toMatchObject({ code: 'INPUT_EMPTY' });
  expect(await server.keys(bucket)).toEqual([]);
  const open = await server.client().send(new ListMultipartUploadsCommand({ Bucket: bucket }));
  expect(open.Uploads ?? []).toEqual([]);
});

test('old uploads go unless a job needs them or they were used again', async () => {
  const write = (text: string) => uploads.write(pieces(Buffer.from(text)), { maxBytes: 100 });
  const unused = await write('unused');
  const needed = await write('needed');
  const sweep = (usedBefore: number) =>
    uploads.sweep({ usedBefore, isNeeded: (id) => Promise.resolve(id === needed.id) });
  expect(await sweep(Date.now() - DAY_MS)).toEqual([]);
  expect(await sweep(Date.now() + DAY_MS)).toEqual([unused.id]);
  await expect(uploads.use(unused.id)).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
  expect(await uploads.use(needed.id)).toMatchObject({ id: needed.id, bytes: 6 });
  expect(await stored('condemned')).toEqual([]);
});

test('a sweep that finds an upload condemned by another server leaves it to that one', async () => {
  const { id } = await uploads.write(pieces(Buffer.from('contested')), { maxBytes: 100 });
  const all = { usedBefore: Date.now() + DAY_MS, isNeeded: () => Promise.resolve(false) };
  const removed = await Promise.all([uploads.sweep(all), uploads.sweep(all)]);
  expect(removed.flat()).toContain(id);
  expect(await server.keys(bucket)).toEqual([]);
});

test('objects are read below the allowed prefixes and nowhere else', async () => {
  const { id } = await uploads.write(pieces(Buffer.from('an object')), { maxBytes: 100 });
  const fetch = (text: string) => storage.places.fetchObject?.(parseObjectAddress(text));
  const inside = `s3://${bucket}/wave/pool/uploads`;
  await using file = await fetch(`${inside}/${id.slice(0, 2)}/${id}`);
  if (file === undefined) throw new Error('objects are not allowed');
  expect(await readFile(file.path, 'utf8')).toBe('an object');
  await expect(fetch(`${inside}/missing`)).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
  for (const outside of [`s3://${bucket}/wave/pool/used/${id}`, `s3://other-bucket/${id}`]) {
    await expect(fetch(outside)).rejects.toMatchObject({ code: 'INPUT_FORBIDDEN' });
  }
  expect(() => parseObjectAddress(`${inside}/../used/${id}`)).toThrow('is not s3://BUCKET/KEY');
});

test('a download goes on where it was when the store breaks off', async () => {
  const bytes = Buffer.alloc(12 * MEGABYTE, 'break');
  const { id } = await uploads.write(pieces(bytes), { maxBytes: 20 * MEGABYTE });
  server.breakAfter(4 * MEGABYTE);
  expect((await readUpload(id)).equals(bytes)).toBe(true);
  expect(server.broken).toBe(1);
});

test('an upload under way survives an outage of the store', async () => {
  async function* slowly(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(10 * MEGABYTE, 1);
    await server.cut();
    yield Buffer.alloc(10 * MEGABYTE, 2);
    await server.restore();
    yield Buffer.alloc(MEGABYTE, 3);
  }
  const { id, bytes } = await uploads.write(slowly(), { maxBytes: 30 * MEGABYTE });
  expect(bytes).toBe(21 * MEGABYTE);
  expect(sha256Of(await readUpload(id))).toBe(id);
});

test('journals are there for whoever goes on with the job, and go with it', async () => {
  const { journals } = storage.results;
  const journal = await journals.open('job', 'aa');
  await journal.append(['one', 'two'], false);
  await journal.append(['three'], true);
  const s3 = server.settings(bucket);
  const elsewhere = (await openStorage({ s3, resultsDir: '/no' })).results.journals;
  expect(await elsewhere.holds('job')).toBe(true);
  expect((await elsewhere.open('job', 'aa')).lines).toEqual(['one', 'two', 'three']);
  expect((await elsewhere.open('job', 'bb')).lines).toEqual([]);
  expect(await stored('journals')).toEqual([]);
  await journal.append(['four'], false);
  await elsewhere.remove('job');
  expect(await stored('journals')).toEqual([]);
});

test.each([
  [
    'a bucket that is missing',
    { place: { bucket: 'no-such-bucket', prefix: '' } },
    'STORAGE_UNSUITABLE',
  ],
  [
    'an address without a store',
    { endpoint: 'http://127.0.0.1:1', patienceMs: 300 },
    'STORAGE_UNAVAILABLE',
  ],
])('%s is refused at the start', async (_what, wrong, code) => {
  const s3 = server.settings(bucket, wrong);
  await expect(openStorage({ s3, resultsDir: '/no' })).rejects.toMatchObject({ code });
});

test('a store that ignores conditions is refused at the start', async () => {
  const s3 = server.settings(await server.makeBucket('careless-bucket'));
  await expect(openStorage({ s3, resultsDir: '/no' })).rejects.toMatchObject({
    code: 'STORAGE_UNSUITABLE',
    detail: expect.stringContaining('If-None-Match'),
  });
});
