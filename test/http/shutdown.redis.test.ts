import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ControlResult } from '../../src/core/worker/control.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { loadedResult, startControlledWorker } from '../support/controlled-worker.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../support/http.ts';
import { modelStatusOf } from '../support/presence.ts';
import { startTranscriber } from '../support/transcriber.ts';

/** Longer than any test may take: a server that ends in a test ended without it. */
const settings = { shutdownMs: 3_600_000 };

async function openSocket(server: TestServer, words: string): Promise<Socket> {
  const { hostname, port } = new URL(server.url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(words);
  return socket;
}

/** A command that its worker has begun and ends when told to. */
function heldCommand() {
  let begin: () => void = () => undefined;
  let end: (result: ControlResult) => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  return {
    begun,
    end: (result: ControlResult) => end(result),
    run: () => {
      begin();
      return new Promise<ControlResult>((resolve) => {
        end = resolve;
      });
    },
  };
}

test('a client that stalls in its header is let go, a request at work here is waited for', async () => {
  await using server = await startTestServer({ settings });
  const command = heldCommand();
  await using _worker = await startControlledWorker({
    address: server.redis.address,
    presence: { runtime: { build: 'test', models: [modelStatusOf('a')] } },
    run: command.run,
  });
  const answer = server.post('/v1/models/a/load', {});
  await command.begun;
  const stalled = await openSocket(server, 'POST /v1/jobs HTTP/1.1\r\nHost: half-a-hea');
  const idle = await openSocket(server, '');
  const released = Promise.all([once(stalled, 'close'), once(idle, 'close')]);

  let isClosed = false;
  const closed = server.close().then(() => {
    isClosed = true;
  });
  await released;
  expect(isClosed).toBe(false);

  command.end(loadedResult('a'));
  const response = await answer;
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ outcomes: [{ ok: true }] });
  await closed;
});

test('an upload that is open and silent does not keep the server', async () => {
  await using server = await startTestServer({ settings });
  const head = `POST /v1/uploads HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n`;
  const silent = await openSocket(
    server,
    `${head}Content-Type: application/octet-stream\r\n\r\n5\r\nhello\r\n`,
  );
  await expect.poll(async () => (await files(server.uploadsDir)).length).toBe(1);
  const released = once(silent, 'close');
  await server.close();
  await released;
  await expect.poll(() => files(server.uploadsDir)).toEqual([]);
});

test('a client that does not read a large answer does not keep the server', {
  timeout: 30_000,
}, async () => {
  await using server = await startTestServer({ settings });
  const { address } = server.redis;
  await using _worker = await startTranscriber({
    address,
    model: TEST_MODEL,
    results: server.services.results,
    places: { uploadsDir: server.uploadsDir },
  });
  const path = join(server.inputRoot, 'long.wav');
  await writeFile(path, 'word '.repeat(4_000_000));
  await using queue = await AudioQueue.open({ address, model: TEST_MODEL });
  const id = await queue.add({ input: { kind: 'path', path } });
  await queue.waitFor(id);

  const deaf = await openSocket(
    server,
    `GET /v1/jobs/${id}/result?format=txt HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  );
  // The answer has begun; nothing more of it is read.
  await once(deaf, 'readable');
  const released = once(deaf, 'close');
  await server.close();
  deaf.resume();
  await released;
  expect(deaf.bytesRead).toBeLessThan(20_000_000);
});

test('a server that ends again has ended', async () => {
  await using server = await startTestServer({ settings });
  await Promise.all([server.close(), server.close()]);
  await server.close();
});

async function files(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map(({ name }) => name);
}
