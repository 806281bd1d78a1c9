import { createReadStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import type { ServiceEvent } from '../../src/core/http/events.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../support/http.ts';
import { startTranscriber } from '../support/transcriber.ts';

let server: TestServer;
let worker: AsyncDisposable;
let client: WavepoolClient;

beforeAll(async () => {
  server = await startTestServer({ settings: { maxUploadBytes: 2_000_000 } });
  client = new WavepoolClient({ baseUrl: server.url });
  worker = await startTranscriber({
    address: server.redis.address,
    model: TEST_MODEL,
    results: server.services.results,
    places: { uploadsDir: server.uploadsDir },
  });
});
afterAll(async () => {
  await worker[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

async function put(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(server.inputRoot, name);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
  return path;
}

describe('a job', () => {
  test('is submitted, waited for, read in every format, listed and forgotten', async () => {
    const { jobs } = client;
    const job = await jobs.submit({
      file: createReadStream(await put('a.wav', 'Hello.')),
      name: 'a.wav',
    });
    expect(job).toMatchObject({ model: TEST_MODEL, input: { kind: 'upload', name: 'a.wav' } });
    expect(await jobs.waitFor(job.id)).toMatchObject({ characters: 5 });
    expect(await jobs.get(job.id)).toMatchObject({ state: 'completed', attempts: 1 });
    expect(await jobs.result(job.id)).toMatchObject({ jobId: job.id, text: 'Hello.' });
    expect(await jobs.result(job.id, 'txt')).toBe('Hello.\n');
    expect(await jobs.result(job.id, 'srt')).toContain('-->');
    expect(await jobs.result(job.id, 'vtt')).toMatch(/^WEBVTT/);
    const listed: string[] = [];
    for await (const { id } of jobs.list({ state: 'completed', pageSize: 1 })) listed.push(id);
    expect(listed).toContain(job.id);
    expect(await jobs.cancel(job.id, { purge: true })).toMatchObject({ purged: true });
    expect(await jobs.get(job.id)).toBeUndefined();
  });

  test('is added once under one key, and its path must be inside the roots', async () => {
    const serverPath = await put('b.wav', 'Hello.');
    const key = { idempotencyKey: 'b' };
    const first = await client.jobs.submit({ serverPath }, key);
    expect((await client.jobs.submit({ serverPath }, key)).id).toBe(first.id);
    await expect(client.jobs.submit({ serverPath, priority: 1 }, key)).rejects.toMatchObject({
      code: 'IDEMPOTENCY_CONFLICT',
    });
    await expect(client.jobs.submit({ serverPath: '/etc/passwd' })).rejects.toMatchObject({
      code: 'INPUT_FORBIDDEN',
    });
  });

  test('is followed to its end, cancelled while it runs, and retried', async () => {
    const { jobs } = client;
    const job = await jobs.submit({ file: await put('c.wav', 'hang') });
    const seen: ServiceEvent['type'][] = [];
    for await (const event of jobs.events(job.id)) {
      seen.push(event.type);
      const runs = event.type === 'job.snapshot' && event.job.progress !== null;
      if (runs || event.type === 'job.progress') await jobs.cancel(job.id);
    }
    expect([seen[0], seen.at(-1)]).toEqual(['job.snapshot', 'job.failed']);
    await expect(jobs.waitFor(job.id)).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(await jobs.retry(job.id)).toMatchObject({ id: job.id });
    await expect(jobs.retry(job.id)).rejects.toMatchObject({ code: 'JOB_NOT_RETRYABLE' });
    await jobs.cancel(job.id);
  });

  test('is waited for only as long as the caller wants', async () => {
    const job = await client.jobs.submit({ file: await put('d.wav', 'hang'), name: 'd.wav' });
    const enough = new AbortController();
    const waiting = client.jobs.waitFor(job.id, { signal: enough.signal });
    enough.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await client.jobs.cancel(job.id);
  });
});

test('an upload that is too large is refused', async () => {
  const tooLarge = new Blob([new Uint8Array(2_000_001)]);
  await expect(client.uploads.create(tooLarge)).rejects.toMatchObject({ code: 'INPUT_TOO_LARGE' });
});

test('inputs without audio end with a typed error that is not retryable', async () => {
  const empty = await put('no-bytes.wav', '');
  await expect(client.jobs.submit({ file: empty })).rejects.toMatchObject({
    code: 'INPUT_EMPTY',
    retryable: false,
  });
  const noise = await client.jobs.submit({
    file: await put('noise.mp3', new Uint8Array(1_000_000).fill(0xff)),
  });
  await expect(client.jobs.waitFor(noise.id)).rejects.toMatchObject({
    code: 'INPUT_UNDECODABLE',
    retryable: false,
  });
});

test.each([
  'Привет, мир.wav',
  '日本語の録音.wav',
  '🎙️ emoji.wav',
  'cafe\u0301.wav',
  'two  words.wav',
  'semi;colon.wav',
  `it's "quoted".wav`,
  'hash#tag.wav',
  'percent%20sign.wav',
  'a&b=c?d+e.wav',
  '-leading.wav',
  'dots..inside.wav',
  `${'ж'.repeat(98)}.wav`,
  `каталог; 'é' "#1" & -/x.wav`,
])('a file keeps its name: %s', async (name) => {
  const path = await put(name, `I am ${name}`);
  const sent = await client.jobs.submit({ file: path });
  const named = await client.jobs.submit({ serverPath: path });
  for (const { id, input } of [sent, named]) {
    expect(input.name).toBe(basename(name));
    await client.jobs.waitFor(id);
    expect(await client.jobs.result(id, 'txt')).toContain(basename(name).slice(0, 5).trim());
  }
});

test('batches count, list and tell what became of their items', async () => {
  const { batches } = client;
  const batch = await batches.submit({
    name: 'mixed',
    inputs: [
      { file: await put('one.wav', 'One.') },
      { file: await put('bad.wav', 'fail INPUT_UNDECODABLE') },
      { serverPath: await put('two.wav', 'Two.') },
    ],
  });
  const ended = await batches.waitFor(batch.id, { intervalMs: 20 });
  expect(ended.counts).toMatchObject({ total: 3, completed: 2, failed: 1 });
  const items: string[] = [];
  for await (const { state } of batches.items(batch.id, { pageSize: 2 })) items.push(state);
  expect(items).toEqual(['completed', 'failed', 'completed']);
  const texts: (string | undefined)[] = [];
  for await (const { text, failure } of batches.results(batch.id))
    texts.push(text ?? failure?.code);
  expect(texts).toEqual(['One.\n', 'INPUT_UNDECODABLE', 'Two.\n']);
  const zip = await new Response(await batches.archive(batch.id)).text();
  expect(zip.slice(0, 2)).toBe('PK');
  expect(await batches.retry(batch.id)).toMatchObject({ retried: 1 });
  await batches.waitFor(batch.id, { intervalMs: 20 });
  const listed: string[] = [];
  for await (const { id } of batches.list()) listed.push(id);
  expect(listed).toEqual([batch.id]);
  expect(await batches.get('none')).toBeUndefined();
});

test('models and workers are told', async () => {
  expect(await client.models.list()).toMatchObject([{ id: TEST_MODEL, object: 'model' }]);
  expect(await client.workers.list()).toEqual([]);
});

test('a key is sent, and a wrong one is refused', async () => {
  await using guarded = await startTestServer();
  const { key } = await guarded.services.keys.create('test', ['read']);
  const reader = new WavepoolClient({ baseUrl: guarded.url, apiKey: key });
  expect(await reader.models.list()).toHaveLength(1);
  await expect(reader.jobs.submit({ url: 'http://example.com/a.wav' })).rejects.toMatchObject({
    code: 'FORBIDDEN',
  });
  const stranger = new WavepoolClient({ baseUrl: guarded.url, apiKey: 'wp_wrong' });
  await expect(stranger.models.list()).rejects.toMatchObject({ code: 'AUTH_REQUIRED' });
});

test('a key of the deployment is as good as one that was made here', async () => {
  await using guarded = await startTestServer();
  const key = `wp_${'0123456789abcdef'}_${'A'.repeat(43)}`;
  await guarded.services.keys.adopt(key, 'compose', ['read']);
  await guarded.services.keys.adopt(key, 'compose', ['read', 'submit']);
  const reader = new WavepoolClient({ baseUrl: guarded.url, apiKey: key });
  expect(await reader.models.list()).toHaveLength(1);
  expect(await guarded.services.keys.list()).toMatchObject([{ scopes: ['read', 'submit'] }]);
  await expect(guarded.services.keys.adopt('short', 'x', ['read'])).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
  });
});
