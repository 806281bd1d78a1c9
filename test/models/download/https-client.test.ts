import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { HttpsClient, type RemoteFile } from '../../../src/models/download/https-client.ts';
import { type FileServer, fixture, startFileServer } from './file-server.ts';

const CONTENT = Buffer.from(Array.from({ length: 200_000 }, (_, at) => (at * 7) % 251));

let folder: string;
let server: FileServer;
let client: HttpsClient;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-https-'));
  server = await startFileServer();
  server.put('/file', CONTENT);
  client = new HttpsClient({ environment: {}, retryDelayMs: 1 });
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const target = () => path.join(folder, 'target');
const remote = (file = '/file', rest: Partial<RemoteFile> = {}): RemoteFile => ({
  url: new URL(file, server.url),
  maxBytes: 1_000_000,
  ...rest,
});
const ranges = () => server.requests.map(({ headers }) => headers.range);
const failed = (message: RegExp) => ({
  code: 'MODEL_DOWNLOAD_FAILED',
  message: expect.stringMatching(message),
});

test('a file comes whole and leaves nothing beside it', async () => {
  const received: number[] = [];
  await client.receive(remote(), target(), { onBytes: (bytes) => received.push(bytes) });
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
  expect(received.at(-1)).toBe(CONTENT.length);
  expect(await readdir(folder)).toEqual(['target']);
});

test('a broken connection is gone on with where it broke', async () => {
  server.cutAfter('/file', 60_000, 50_000);
  await client.receive(remote(), target(), { onBytes: server.told });
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
  expect(ranges()).toEqual([undefined, 'bytes=60000-', 'bytes=110000-']);
});

test('what an earlier process has received is not asked for again', async () => {
  server.cutAfter('/file', 70_000, 0, 0, 0, 0, 0);
  await expect(client.receive(remote(), target(), { onBytes: server.told })).rejects.toMatchObject(
    failed(/lost|early/),
  );
  expect((await readdir(folder)).toSorted()).toEqual(['target.part', 'target.part.json']);
  server.cutAfter('/file');
  server.requests.length = 0;
  await using later = new HttpsClient({ environment: {}, retryDelayMs: 1 });
  await later.receive(remote(), target(), { onBytes: server.told });
  expect(ranges()).toEqual(['bytes=70000-']);
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});

test('a file that has changed meanwhile comes whole from the beginning', async () => {
  server.cutAfter('/file', 70_000, 0, 0, 0, 0, 0);
  await expect(client.receive(remote(), target(), { onBytes: server.told })).rejects.toMatchObject(
    failed(/lost|early/),
  );
  const changed = Buffer.from(CONTENT.map((byte) => byte ^ 1));
  server.put('/file', changed);
  await client.receive(remote(), target(), { onBytes: server.told });
  expect((await readFile(target())).equals(changed)).toBe(true);
});

test('where the server cannot tell whether a file has changed, it comes from the beginning', async () => {
  server.forgetValidators();
  server.cutAfter('/file', 70_000);
  await client.receive(remote(), target(), { onBytes: server.told });
  expect(ranges()).toEqual([undefined, undefined]);
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});

test('a note cut short by the death of a process costs the beginning, not the file', async () => {
  await writeFile(`${target()}.part`, 'something');
  await writeFile(`${target()}.part.json`, '{"url":');
  await client.receive(remote(), target(), { onBytes: server.told });
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});

test('a part that is longer than the file is thrown away', async () => {
  server.cutAfter('/file', 70_000, 0, 0, 0, 0, 0);
  await expect(client.receive(remote(), target(), { onBytes: server.told })).rejects.toThrow();
  await writeFile(`${target()}.part`, Buffer.concat([CONTENT, CONTENT]));
  server.cutAfter('/file');
  await client.receive(remote(), target(), { onBytes: server.told });
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});

test('a file of another size than the expected one is refused before it comes', async () => {
  const wanted = remote('/file', { bytes: CONTENT.length - 1 });
  await expect(client.receive(wanted, target())).rejects.toMatchObject(
    failed(/200000 bytes where 199999/),
  );
  const small = remote('/file', { maxBytes: 1_000 });
  await expect(client.receive(small, target())).rejects.toMatchObject(failed(/more than 1000/));
});

test('redirects are followed, without credentials for other servers', async () => {
  await using store = await startFileServer();
  store.put('/blob', CONTENT);
  server.redirect('/file', '/again');
  server.redirect('/again', `${store.url}/blob`);
  const headers = { authorization: 'Bearer secret' };
  await client.receive(remote('/file', { headers }), target());
  expect(server.requests.map(({ headers: sent }) => sent.authorization)).toEqual([
    'Bearer secret',
    'Bearer secret',
  ]);
  expect(store.requests.map(({ headers: sent }) => sent.authorization)).toEqual([undefined]);
});

test('a server that redirects for ever is left', async () => {
  server.redirect('/file', '/file');
  await expect(client.receive(remote(), target(), { onBytes: server.told })).rejects.toMatchObject(
    failed(/more than 8 times/),
  );
});

for (const [status, message, requests] of [
  [404, /there is no such file/, 1],
  [401, /wants credentials/, 1],
  [503, /answered 503/, 5],
] as const) {
  test(`an answer of ${status} is told and ${requests > 1 ? 'tried again' : 'not tried again'}`, async () => {
    server.failWith('/file', status);
    await expect(
      client.receive(remote(), target(), { onBytes: server.told }),
    ).rejects.toMatchObject(failed(message));
    expect(server.requests).toHaveLength(requests);
  });
}

test('a server that is not there is told', async () => {
  const gone = await startFileServer();
  const url = new URL('/file', gone.url);
  await gone[Symbol.asyncDispose]();
  await expect(client.receive({ url, maxBytes: 10 }, target())).rejects.toMatchObject(
    failed(/refused the connection/),
  );
});

test('an abort ends it and keeps what has come', async () => {
  const controller = new AbortController();
  const receiving = client.receive(remote(), target(), {
    signal: controller.signal,
    onBytes: (bytes) => {
      if (bytes > 0) controller.abort();
    },
  });
  await expect(receiving).rejects.toThrow();
  expect(await readdir(folder)).not.toContain('target');
});

test('over TLS, an unknown authority is told and a redirect to plain HTTP refused', async () => {
  await using secure = await startFileServer({ tls: true });
  secure.redirect('/file', `${server.url}/file`);
  const wanted = { url: new URL('/file', secure.url), maxBytes: 1_000_000 };
  await expect(client.receive(wanted, target())).rejects.toMatchObject(
    failed(/NODE_EXTRA_CA_CERTS/),
  );
  await using trusting = new HttpsClient({ environment: {}, ca: await fixture('localhost.crt') });
  await expect(trusting.receive(wanted, target())).rejects.toMatchObject(
    failed(/without encryption/),
  );
  secure.put('/other', CONTENT);
  await trusting.receive({ ...wanted, url: new URL('/other', secure.url) }, target());
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});
