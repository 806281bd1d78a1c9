import { execFileSync } from 'node:child_process';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { startWorker } from '../../http/live/live-fixture.ts';
import type { FakeWorker } from '../../support/fake-worker.ts';
import { startTestServer, type TestServer } from '../../support/http.ts';
import { pcm16 } from '../../support/live-client.ts';
import { sound } from '../../worker/live/live-fixture.ts';
import { runCli } from '../run-cli.ts';

const PCM = pcm16(sound('.sss..................ss.....'));

describe.skipIf(!TEST_ADDON_BUILT)('wavepool live', () => {
  let server: TestServer;
  let worker: FakeWorker;
  let file: string;
  beforeAll(async () => {
    server = await startTestServer();
    worker = await startWorker(server, 1);
    file = join(server.inputRoot, 'sound.pcm');
    await writeFile(file, PCM);
  });
  afterAll(async () => {
    await worker[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  test('a file of samples is told as its segments come, with a key where one is needed', async () => {
    const { key } = await server.services.keys.create('live', ['submit'], 'acme');
    const keyFile = join(server.inputRoot, 'key');
    await writeFile(keyFile, `${key}\n`);
    const args = ['live', file, '--server', server.url];
    expect((await runCli(args)).code).toBe(3);
    const told = await runCli([...args, '--key-file', keyFile, '--json']);
    expect(told.code).toBe(0);
    const events = told.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.at(0)).toMatchObject({ type: 'live.opened' });
    expect(events.at(-1)).toMatchObject({ type: 'live.done' });
    const texts = events.filter(({ type }) => type === 'live.segment').map(({ text }) => text);
    const plain = await runCli([...args, '--key-file', keyFile]);
    expect(plain.stdout).toBe(`${texts.join('\n')}\n`);
  });

  test('Ctrl-C ends the sound, and what was said is still told', async () => {
    const { key } = await server.services.keys.create('live', ['submit']);
    const [keyFile, pipe] = [join(server.inputRoot, 'key'), join(server.inputRoot, 'pipe')];
    await writeFile(keyFile, key);
    execFileSync('mkfifo', [pipe]);
    const running = runCli(
      ['live', pipe, '--server', server.url, '--key-file', keyFile, '--json'],
      { interruptAfterOutput: true },
    );
    // Stays open: only the interrupt ends the sound.
    const writer = await open(pipe, 'w');
    try {
      await writer.write(PCM);
      const end = await running;
      expect(end.code).toBe(0);
      expect(end.stdout).toContain('live.done');
    } finally {
      await writer.close();
    }
  });

  test('a wrong format is a usage error', async () => {
    expect((await runCli(['live', file, '--rate', '10'])).code).toBe(2);
    expect((await runCli(['live', `${file}.none`, '--server', server.url])).code).toBe(2);
  });
});
