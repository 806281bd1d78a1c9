import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import { JobResource, PresignResource, UploadResource } from '../../src/core/http/api.ts';
import { ProblemDetails } from '../../src/core/http/problem.ts';
import { parseObjectPlace } from '../../src/core/s3-settings.ts';
import { sweepUploads } from '../../src/http/submit/upload-sweeper.ts';
import { startTestServer, type TestServer } from '../support/http.ts';
import { S3Server } from '../support/s3.ts';

// The time that a process takes to start is no concern of these tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let s3: S3Server;
let bucket: string;
let server: TestServer;
let client: WavepoolClient;
beforeAll(async () => {
  s3 = await S3Server.start();
  bucket = await s3.makeBucket();
  server = await startTestServer({
    s3: s3.settings(bucket),
    settings: { maxUploadBytes: 1_000_000, objectRoots: [parseObjectPlace('s3://calls/2026')] },
  });
  client = new WavepoolClient({ baseUrl: server.url });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
});

function announce(bytes: Buffer) {
  return {
    sha256: createHash('sha256').update(bytes).digest('hex'),
    bytes: bytes.length,
    name: 'a.wav',
  };
}

async function presign(bytes: Buffer): Promise<PresignResource> {
  const response = await server.post('/v1/uploads/presign', announce(bytes));
  expect(response.status).toBe(201);
  return PresignResource.parse(await response.json());
}

async function codeOf(response: Response): Promise<string> {
  return ProblemDetails.parse(await response.json()).code;
}

test('audio that a client has put into the bucket counts when it is confirmed', async () => {
  const bytes = Buffer.from('put by hand');
  const { url, method, headers, token } = await presign(bytes);
  expect(new URL(url).searchParams.get('X-Amz-SignedHeaders')).toContain('content-length');
  const confirm = () => server.post('/v1/uploads/confirm', { ...announce(bytes), token });
  expect(await codeOf(await confirm())).toBe('UPLOAD_MISMATCH');
  expect((await fetch(url, { method, headers, body: bytes })).status).toBe(200);
  const unconfirmed = await server.post('/v1/jobs', {
    input: { uploadId: announce(bytes).sha256 },
  });
  expect(await codeOf(unconfirmed)).toBe('INPUT_NOT_FOUND');
  for (const response of [await confirm(), await confirm()]) {
    expect(response.status).toBe(201);
    expect(UploadResource.parse(await response.json())).toMatchObject({
      id: announce(bytes).sha256,
      name: 'a.wav',
      bytes: bytes.length,
    });
  }
  const again = await server.post('/v1/uploads/presign', announce(bytes));
  expect(again.status).toBe(200);
  expect((await s3.keys(bucket)).filter((key) => key.includes('/staged/'))).toEqual([]);
});

test.each([
  ['other bytes', 'annOunced'],
  ['fewer bytes', 'announce'],
])('%s than were announced are refused, and go', async (_what, sent) => {
  const bytes = Buffer.from('announced');
  const { url, method, headers, token } = await presign(bytes);
  await fetch(url, { method, headers, body: sent });
  const response = await server.post('/v1/uploads/confirm', { ...announce(bytes), token });
  expect(response.status).toBe(422);
  expect(await codeOf(response)).toBe('UPLOAD_MISMATCH');
  expect((await s3.keys(bucket)).filter((key) => key.includes('/staged/'))).toEqual([]);
});

test('a tenant that names bytes of others has not put them', async () => {
  await using guarded = await startTestServer({ s3: s3.settings(bucket) });
  const bytes = Buffer.from('sent by another tenant');
  const { key: theirs } = await guarded.services.keys.create('other', ['submit'], 'other');
  const { key } = await guarded.services.keys.create('acme', ['submit'], 'acme');
  const other = new WavepoolClient({ baseUrl: guarded.url, apiKey: theirs });
  const acme = new WavepoolClient({ baseUrl: guarded.url, apiKey: key });
  const { id: uploadId } = await other.uploads.createDirect(bytes);
  const headers = { authorization: `Bearer ${key}` };
  const offered = await guarded.post('/v1/uploads/presign', announce(bytes), headers);
  expect(offered.status).toBe(201);
  const { token } = PresignResource.parse(await offered.json());
  const confirmed = await guarded.post(
    '/v1/uploads/confirm',
    { ...announce(bytes), token },
    headers,
  );
  expect(await codeOf(confirmed)).toBe('UPLOAD_MISMATCH');
  await expect(acme.jobs.submit({ uploadId })).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
  expect(await acme.uploads.createDirect(bytes)).toMatchObject({ id: uploadId });
  expect((await acme.jobs.submit({ uploadId })).tenant).toBe('acme');
});

test('more than the server takes gets no address', async () => {
  const announced = { ...announce(Buffer.from('x')), bytes: 1_000_001 };
  expect(await codeOf(await server.post('/v1/uploads/presign', announced))).toBe('INPUT_TOO_LARGE');
});

test('the client sends audio straight to the bucket, and nothing when it is there', async () => {
  const bytes = Buffer.from('through the client');
  const first = await client.uploads.createDirect(bytes, { name: 'talk.wav' });
  expect(first).toMatchObject({ id: announce(bytes).sha256, name: 'talk.wav' });
  expect(await client.uploads.createDirect(bytes)).toMatchObject({ id: first.id });
  const file = import.meta.filename;
  expect(await client.uploads.createDirect(file)).toMatchObject({ name: basename(file) });
  const job = await client.jobs.submit({ uploadId: first.id });
  expect(job.input).toMatchObject({ kind: 'upload', uploadId: first.id });
});

test('objects are inputs below the object roots only', async () => {
  const inside = await server.post('/v1/jobs', { input: { object: 's3://calls/2026/may/1.wav' } });
  expect(JobResource.parse(await inside.json()).input).toEqual({
    kind: 'object',
    name: '1.wav',
    object: 's3://calls/2026/may/1.wav',
  });
  for (const object of ['s3://calls/2026-secret/1.wav', 's3://other/2026/1.wav']) {
    expect(await codeOf(await server.post('/v1/jobs', { input: { object } }))).toBe(
      'INPUT_FORBIDDEN',
    );
  }
  const odd = await server.post('/v1/jobs', { input: { object: 's3://calls/2026/../1.wav' } });
  expect(await codeOf(odd)).toBe('INVALID_REQUEST');
});

test('while the store is away, requests that need it say so, and may be sent again', async () => {
  const { id } = await client.uploads.create(Buffer.from('before the outage'));
  await using brief = await startTestServer({ s3: s3.settings(bucket, { patienceMs: 500 }) });
  await s3.cut();
  const refused = await brief.post('/v1/jobs', { input: { uploadId: id } });
  expect(refused.status).toBe(503);
  expect(await codeOf(refused)).toBe('STORAGE_UNAVAILABLE');
  await s3.restore();
  expect((await brief.post('/v1/jobs', { input: { uploadId: id } })).status).toBe(202);
});

test('the sweeper removes what is old from the bucket', async () => {
  await client.uploads.create(Buffer.from('old'));
  const { services } = server;
  const later = { ...services, now: () => Date.now() + 30 * 86_400_000 };
  expect(await sweepUploads(later)).toBeGreaterThan(0);
});

test('a server without object storage says so', async () => {
  await using local = await startTestServer();
  const response = await local.post('/v1/uploads/presign', announce(Buffer.from('x')));
  expect(response.status).toBe(501);
  expect(await codeOf(response)).toBe('PRESIGN_UNSUPPORTED');
});
