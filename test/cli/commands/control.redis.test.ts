import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { ControlAnswer } from '../../../src/core/http/control-api.ts';
import type { ControlCommand, ControlResult } from '../../../src/core/worker/control.ts';
import {
  type ControlledWorker,
  loadedResult,
  startControlledWorker,
} from '../../support/controlled-worker.ts';
import { modelStatusOf } from '../../support/presence.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { runCli } from '../run-cli.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
let heard: ControlCommand[];
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

function cli(...argv: string[]) {
  return runCli(['models', ...argv, '--data-dir', redis.dataDir]);
}

async function start(
  pid: number,
  run: () => Promise<ControlResult> = () => Promise.resolve(loadedResult('a', 3)),
): Promise<ControlledWorker> {
  heard = [];
  return startControlledWorker({
    address: redis.address,
    presence: {
      ...{ host: 'mill', pid, startedAt: pid },
      runtime: { build: 'test', models: [modelStatusOf('a')] },
    },
    run: (command) => {
      heard.push(command);
      return run();
    },
  });
}

const refuse = () => Promise.reject(new WavepoolError('CAPACITY_UNVALIDATED', 'a has no evidence'));

test('load, unload and reconfigure tell what each worker has now', async () => {
  await using _first = await start(11);
  await using _second = await start(12);
  const table = [
    'worker   model  state  generation  note',
    'mill:11  a      ready  3',
    'mill:12  a      ready  3',
    '',
  ].join('\n');
  expect(await cli('load', 'a')).toEqual({ code: 0, stdout: table, stderr: '' });
  await cli('load', 'a', '--batch', '2');
  await cli('unload', 'a');
  await cli('unload', 'a', 'b');
  await cli('unload', '--all-models');
  await cli(
    ...['reconfigure', 'a', '--slots', '2', '--threads', '3', '--busy-timeout', '30s'],
    ...['--replace', '--strategy', 'load-first', '--worker', 'mill:12'],
  );
  expect(heard.filter((_command, at) => at % 2 === 0 || at === heard.length - 1)).toEqual([
    { operation: 'load', model: 'a', settings: {} },
    { operation: 'load', model: 'a', settings: { batch: 2 } },
    { operation: 'unload', model: 'a' },
    { operation: 'unload-many', models: ['a', 'b'] },
    { operation: 'unload-many', models: 'all' },
    {
      operation: 'reconfigure',
      model: 'a',
      settings: { slots: 2, threads: 3, busyTimeoutMs: 30_000 },
      replace: true,
      strategy: 'load-first',
    },
  ]);
  expect(heard).toHaveLength(11);
});

test('one worker is named by its id, the beginning of it, or its host and process', async () => {
  await using first = await start(21);
  await using _second = await start(22);
  const { id } = first.presence;
  for (const name of [id, id.slice(0, 13), 'mill:21']) {
    const { stdout } = await cli('unload', 'a', '--worker', name, '--json');
    expect(ControlAnswer.parse(JSON.parse(stdout)).outcomes).toMatchObject([
      { ok: true, worker: id, pid: 21 },
    ]);
  }
  expect(await cli('unload', 'a', '--worker', 'mill:23')).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('no live worker for this: mill:23 [NO_WORKER]'),
  });
});

test('the exit code tells whether all, some or none of the workers did it', async () => {
  await using _first = await start(31, refuse);
  expect(await cli('reconfigure', 'a', '--slots', '4')).toMatchObject({
    code: 3,
    stdout: expect.stringMatching(
      /^mill:31 +– +not done .*a has no evidence \[CAPACITY_UNVALIDATED\]$/m,
    ),
  });
  await using _second = await start(32);
  expect(await cli('load', 'a')).toMatchObject({ code: 1 });
  expect(await cli('unload', 'a', '--worker', 'mill:32')).toMatchObject({ code: 0 });
});

test('what is asked for wrongly is told at once', async () => {
  expect(await cli('load', 'a')).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('start one with `wavepool worker`'),
  });
  await using _worker = await start(41);
  expect(await cli('unload', 'other')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('[MODEL_UNKNOWN]'),
  });
  for (const wrong of [
    ['unload'],
    ['unload', 'a', '--all-models'],
    ['load'],
    ['reconfigure', 'a', '--slots', '17'],
    ['reconfigure', 'a', '--slots', '0'],
    ['reconfigure', 'a', '--strategy', 'none'],
    ['load', 'a', '--all', '--worker', 'mill:41'],
  ]) {
    expect((await cli(...wrong)).code).toBe(2);
  }
  expect(heard).toEqual([]);
});

test('status shows the generation of each model and the managers that wait for it', async () => {
  await using _worker = await startControlledWorker({
    address: redis.address,
    presence: {
      host: 'mill',
      pid: 51,
      models: [{ id: 'a', slots: 2, batch: 8 }],
      runtime: {
        build: 'test',
        models: [modelStatusOf('a', { state: 'reconfiguring', generation: 7, waitingManagers: 2 })],
      },
    },
    run: refuse,
  });
  const { stdout } = await runCli(['status', '--data-dir', redis.dataDir]);
  const lines = stdout.split('\n');
  const head = lines.find((line) => line.startsWith('worker')) ?? '';
  const row = lines.find((line) => line.startsWith('mill:51')) ?? '';
  const cell = (name: string): string => row.slice(head.indexOf(name)).split(/ {2,}/)[0] ?? '';
  expect([cell('model'), cell('state'), cell('generation'), cell('managers')]).toEqual([
    'a',
    'reconfiguring',
    '7',
    '2',
  ]);
});
