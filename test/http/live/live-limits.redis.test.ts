import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createLogger } from '../../../src/core/logger.ts';
import { Supervisor } from '../../../src/worker/supervisor/supervisor.ts';
import { TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { compileProgram } from '../../support/compile.ts';
import { fakeSettings } from '../../support/fake-worker.ts';
import { startTestServer } from '../../support/http.ts';
import { signalProcess } from '../../support/process-table.ts';
import { failure, MODELS, openLive, startWorker, taking } from './live-fixture.ts';

describe.skipIf(!TEST_ADDON_BUILT)('limits of live audio', () => {
  test('silence, length and the number per key have their ends', async () => {
    await using limited = await startTestServer({
      settings: { liveIdleMs: 300, liveMaxMs: 600, livePerKey: 1 },
    });
    await using _worker = await startWorker(limited, 2);
    using silent = await openLive(limited);
    await silent.event('live.opened');
    using second = await openLive(limited);
    expect(await second.answer()).toMatchObject({ status: 429 });
    expect(await silent.event('live.failed')).toMatchObject(failure('STREAM_IDLE'));
    await silent.ended();

    using long = await openLive(limited);
    await long.event('live.opened');
    const talking = setInterval(() => long.chunk(Buffer.alloc(320)), 50);
    try {
      expect(await long.event('live.failed')).toMatchObject(failure('STREAM_TOO_LONG'));
    } finally {
      clearInterval(talking);
    }
  });

  test('the keys of a tenant have one limit together', async () => {
    await using limited = await startTestServer({ settings: { livePerKey: 1 } });
    await using _worker = await startWorker(limited, 3);
    const open = async (tenant?: string) => {
      const { key } = await limited.services.keys.create('test', ['submit'], tenant);
      const headers = ['Transfer-Encoding: chunked', `Authorization: Bearer ${key}`];
      return openLive(limited, { headers });
    };
    using first = await open('acme');
    await first.event('live.opened');
    using second = await open('acme');
    expect(await second.answer()).toMatchObject({
      status: 429,
      text: expect.stringContaining('STREAM_LIMIT'),
    });
    using other = await open('other');
    await other.event('live.opened');
    using nobody = await open();
    await nobody.event('live.opened');
    first.finish();
    await first.event('live.done');
    await first.ended();
    using again = await open('acme');
    await again.event('live.opened');
  });

  test('nobody takes live audio', async () => {
    await using alone = await startTestServer();
    using client = await openLive(alone);
    const { status, text } = await client.answer();
    expect(status).toBe(503);
    expect(text).toContain('NO_WORKER');
  });

  test('a stream that is open and silent does not keep the server', async () => {
    const settings = { shutdownMs: 3_600_000, liveIdleMs: 3_600_000 };
    await using ending = await startTestServer({ settings });
    await using _worker = await startWorker(ending, 1);
    using client = await openLive(ending);
    await client.event('live.opened');
    await ending.close();
    expect(await client.event('live.failed')).toMatchObject(failure('SHUTTING_DOWN'));
    await client.ended();
  });

  test('a worker that ends tells its streams', async () => {
    await using standing = await startTestServer();
    const ending = await startWorker(standing, 1);
    using client = await openLive(standing);
    await client.event('live.opened');
    await ending.worker.close({ deadlineMs: 0 });
    expect(await client.event('live.failed')).toMatchObject(failure('SHUTTING_DOWN'));
  });

  test('a worker that is killed is missed', { timeout: 60_000 }, async () => {
    await using standing = await startTestServer();
    await using program = await compileProgram(resolve('workers/audio-worker.ts'));
    const { address, dataDir: folder } = standing.redis;
    const supervisor = new Supervisor({
      settings: fakeSettings({ address, folder, models: MODELS, settings: taking(1, folder) }),
      workers: 1,
      logger: createLogger('silent', 'test'),
      handBack: () => Promise.resolve(),
      workerScript: program.path,
    });
    try {
      await supervisor.start();
      using client = await openLive(standing);
      await client.event('live.opened');
      const [pid] = supervisor.pids;
      signalProcess(pid, 'SIGKILL');
      expect(await client.event('live.failed')).toMatchObject(failure('WORKER_GONE'));
    } finally {
      await supervisor.kill();
    }
  });
});
