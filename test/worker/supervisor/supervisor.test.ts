import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { createLogger } from '../../../src/core/logger.ts';
import { WorkerSettings } from '../../../src/core/worker/worker-settings.ts';
import { Supervisor, type SupervisorOptions } from '../../../src/worker/supervisor/supervisor.ts';
import type { HeldByQueue } from '../../../src/worker/supervisor/worker-process.ts';
import { signalProcess } from '../../support/process-table.ts';

const SETTINGS = WorkerSettings.parse({
  redis: { kind: 'socket', path: '/nowhere' },
  resultsDir: '/nowhere',
  models: [
    {
      id: 'moonshine-tiny',
      path: '/nowhere',
      slots: 1,
      batch: 8,
      threads: 1,
    },
  ],
  detector: { id: 'silero-vad', path: '/nowhere' },
});

let open: Supervisor[] = [];
afterEach(async () => {
  await Promise.all(open.map((supervisor) => supervisor.kill()));
  expect(open.flatMap((supervisor) => supervisor.pids)).toEqual([]);
  open = [];
});

function supervise(
  script: string,
  workers = 1,
  settings: SupervisorOptions['settings'] = SETTINGS,
) {
  const handedBack: HeldByQueue[] = [];
  const supervisor = new Supervisor({
    settings,
    workers,
    logger: createLogger('silent', 'test'),
    handBack: (held) => {
      handedBack.push(held);
      return Promise.resolve();
    },
    workerScript: fileURLToPath(new URL(`../../fixtures/workers/${script}`, import.meta.url)),
  });
  open.push(supervisor);
  return { supervisor, handedBack };
}

describe('Supervisor', () => {
  test('start resolves when every worker takes jobs', async () => {
    const { supervisor } = supervise('holding-worker.mjs', 2);
    await supervisor.start();
    expect(supervisor.pids).toHaveLength(2);
  });

  test('workers start while their settings are awaited; without settings nobody starts', async () => {
    const why = new WavepoolError('REDIS_MISSING', 'there is none');
    const { supervisor } = supervise('holding-worker.mjs', 2, Promise.reject(why));
    const started = supervisor.start();
    expect(supervisor.pids).toHaveLength(2);
    await expect(started).rejects.toMatchObject({ code: 'REDIS_MISSING', detail: 'there is none' });
    expect(supervisor.pids).toEqual([]);
  });

  test('with the first worker that takes jobs a start can be over', async () => {
    const resultsDir = await mkdtemp(path.join(tmpdir(), 'wavepool-first-'));
    onTestFinished(() => rm(resultsDir, { recursive: true }));
    const { supervisor } = supervise('first-ready-worker.mjs', 2, { ...SETTINGS, resultsDir });
    await supervisor.start('first');
    expect(supervisor.pids).toHaveLength(2);
  });

  test('a worker that cannot start ends the others and tells its reason', async () => {
    const { supervisor } = supervise('refusing-worker.mjs', 2);
    await expect(supervisor.start()).rejects.toMatchObject({
      code: 'CAPACITY_UNVALIDATED',
      detail: 'two is too many',
    });
    expect(supervisor.pids).toEqual([]);
  });

  test('a worker that dies while starting is WORKER_CRASHED', async () => {
    const { supervisor } = supervise('crashing-worker.mjs');
    await expect(supervisor.start()).rejects.toMatchObject({ code: 'WORKER_CRASHED' });
  });

  test('a killed worker: what it held is handed back, in order and with its tokens, and another takes its place', async () => {
    const { supervisor, handedBack } = supervise('holding-worker.mjs');
    const told = once(supervisor, 'status');
    await supervisor.start();
    await told;
    const [victim] = supervisor.pids;
    const crashed = once(supervisor, 'crash');
    const replaced = once(supervisor, 'status');
    signalProcess(victim, 'SIGKILL');
    expect((await crashed)[0]).toMatchObject({ pid: victim, signal: 'SIGKILL', jobs: 2 });
    expect(handedBack).toEqual([
      new Map([
        [
          'moonshine-tiny',
          {
            jobs: [
              { jobId: 'first', token: 't1', blame: 'killed' },
              { jobId: 'second', token: 't3', blame: 'none' },
            ],
            workerIds: ['taker'],
          },
        ],
      ]),
    ]);
    await replaced;
    expect(supervisor.pids).toHaveLength(1);
    expect(supervisor.pids).not.toContain(victim);
  });

  test('a worker that is ended because somebody wants it to end is no crash of its jobs', async () => {
    const { supervisor, handedBack } = supervise('holding-worker.mjs');
    const told = once(supervisor, 'status');
    await supervisor.start();
    await told;
    await supervisor.kill();
    const jobs = handedBack.flatMap((held) => [...held.values()].flatMap(({ jobs: each }) => each));
    expect(jobs).toMatchObject([{ blame: 'none' }, { blame: 'none' }]);
  });

  test('a worker whose event loop stands still is ended like one that crashed', async () => {
    const settings = { ...SETTINGS, hangLimitMs: 2_000 };
    const { supervisor, handedBack } = supervise('standing-worker.mjs', 1, settings);
    const crashed = once(supervisor, 'crash');
    await supervisor.start();
    expect((await crashed)[0]).toMatchObject({ signal: 'SIGKILL', jobs: 1 });
    const [held] = handedBack;
    expect(held?.get('moonshine-tiny')?.jobs).toEqual([
      { jobId: 'job', token: 't1', blame: 'crashed' },
    ]);
  }, 15_000);

  test('close ends the workers by themselves, hands back nothing twice, and can be called again', async () => {
    const { supervisor } = supervise('holding-worker.mjs', 2);
    await supervisor.start();
    await Promise.all([
      supervisor.close({ deadlineMs: 1_000 }),
      supervisor.close({ deadlineMs: 0 }),
    ]);
    expect(supervisor.pids).toEqual([]);
  });

  test('a worker that does not react to a shutdown is ended all the same', async () => {
    const { supervisor } = supervise('deaf-worker.mjs');
    await supervisor.start();
    await supervisor.close({ deadlineMs: 0 });
    expect(supervisor.pids).toEqual([]);
  }, 15_000);
});
