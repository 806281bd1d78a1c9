import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { UploadResource } from '../../../src/core/http/api.ts';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { sweepUploads } from '../../../src/http/submit/upload-sweeper.ts';
import { uploadPath } from '../../../src/storage/local-uploads.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';

const DAY_MS = 86_400_000;

let server: TestServer;
let now: number;
beforeEach(async () => {
  now = Date.now();
  server = await startTestServer({
    settings: { maxUploadBytes: 1_000_000, uploadRetentionMs: DAY_MS },
    now: () => now,
  });
});
afterEach(() => server[Symbol.asyncDispose]());

async function upload(body: string | Buffer | FormData, query = ''): Promise<UploadResource> {
  const response = await server.request(`/v1/uploads${query}`, { method: 'POST', body });
  expect(response.status).toBe(201);
  return UploadResource.parse(await response.json());
}

async function codeOf(response: Response): Promise<string> {
  return ProblemDetails.parse(await response.json()).code;
}

async function storedFiles(): Promise<string[]> {
  const names = await readdir(server.uploadsDir, { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map(({ name }) => name);
}

test('the bytes are stored once, under their hash, however they come', async () => {
  const bytes = Buffer.alloc(300_000, 'audio');
  const form = new FormData();
  form.append('file', new Blob([bytes]), 'talks/monday.wav');
  const first = await upload(bytes, '?name=..%2F..%2Fetc%2Fpasswd');
  const second = await upload(form);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  expect(first).toMatchObject({ id: sha256, name: 'passwd', bytes: 300_000 });
  expect(second).toMatchObject({ id: sha256, name: 'monday.wav' });
  expect(await storedFiles()).toEqual([sha256]);
  expect(await readFile(uploadPath(server.uploadsDir, sha256))).toEqual(bytes);
});

test('too large an upload is refused, with and without a declared length, and leaves nothing', async () => {
  const declared = await server.request('/v1/uploads', {
    method: 'POST',
    body: Buffer.alloc(3_000_000),
  });
  expect(await codeOf(declared)).toBe('INPUT_TOO_LARGE');
  const form = new FormData();
  form.append('file', new Blob([Buffer.alloc(1_000_001)]), 'a.wav');
  const streamed = await server.request('/v1/uploads', { method: 'POST', body: form });
  expect(streamed.status).toBe(413);
  expect(await storedFiles()).toEqual([]);
});

test.each(['application/octet-stream', 'multipart/form-data; boundary=X'])(
  'an upload (%s) whose sender goes away leaves nothing',
  async (type) => {
    const failed = new Promise<void>((resolve) => {
      const { write } = server.services.uploads;
      server.services.uploads.write = async (...parameters) => {
        try {
          return await write.apply(server.services.uploads, parameters);
        } finally {
          resolve();
        }
      };
    });
    const request = httpRequest(`${server.url}/v1/uploads`, {
      method: 'POST',
      headers: { 'content-type': type, 'content-length': 500_000 },
    });
    request.on('error', () => undefined);
    const head = '--X\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
    request.write(type.startsWith('multipart') ? head : '');
    request.write(Buffer.alloc(200_000));
    const [socket] = await once(request, 'socket');
    await new Promise<void>((resolve) => {
      request.write('x', () => resolve());
    });
    socket.destroy();
    await failed;
    expect(await storedFiles()).toEqual([]);
  },
);

test.each([
  ['a form without a file', { other: 'x' }, 'INVALID_REQUEST'],
  ['a form with an empty file', { file: '' }, 'INPUT_EMPTY'],
])('%s is refused', async (_what, fields, code) => {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (name === 'file') form.append(name, new Blob([value]), 'a.wav');
    else form.append(name, value);
  }
  expect(await codeOf(await server.request('/v1/uploads', { method: 'POST', body: form }))).toBe(
    code,
  );
});

test('a file in another field, a second file and a damaged form are refused', async () => {
  const wrongField = new FormData();
  wrongField.append('audio', new Blob(['x']), 'a.wav');
  const twoFiles = new FormData();
  twoFiles.append('file', new Blob(['x']), 'a.wav');
  twoFiles.append('file', new Blob(['y']), 'b.wav');
  const send = (body: FormData) => server.request('/v1/uploads', { method: 'POST', body });
  expect(await codeOf(await send(wrongField))).toBe('INVALID_REQUEST');
  expect(await codeOf(await send(twoFiles))).toBe('REQUEST_TOO_LARGE');
  for (const [type, body] of [
    ['multipart/form-data', 'x'],
    ['multipart/form-data; boundary=X', '--X\r\nbroken'],
  ] as const) {
    const response = await server.request('/v1/uploads', {
      method: 'POST',
      headers: { 'content-type': type },
      body,
    });
    expect(await codeOf(response)).toBe('INVALID_REQUEST');
  }
});

test('an old upload goes unless a job that has not ended needs it, or it was used again', async () => {
  const unused = await upload('unused');
  const waiting = await upload('waiting');
  const reused = await upload('reused');
  const response = await server.post('/v1/jobs', { input: { uploadId: waiting.id } });
  const { id } = JSON.parse(await response.text());
  now += 2 * DAY_MS;
  await upload('reused');
  expect(await sweepUploads(server.services)).toBe(1);
  expect((await storedFiles()).toSorted()).toEqual([waiting.id, reused.id].toSorted());
  const gone = await server.post('/v1/jobs', { input: { uploadId: unused.id } });
  expect(await codeOf(gone)).toBe('INPUT_NOT_FOUND');
  await (await server.services.queues.queueOf(TEST_MODEL)).cancel(id);
  now += 2 * DAY_MS;
  expect(await sweepUploads(server.services)).toBe(2);
  expect(await readdir(join(server.uploadsDir, 'parts'))).toEqual([]);
});
