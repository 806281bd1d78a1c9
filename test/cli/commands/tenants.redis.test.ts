import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/redis.ts';
import { runCli } from '../run-cli.ts';

test('tenants, limits and schedules are set, listed and removed', async () => {
  await using folder = await temporaryFolder();
  const wavepool = (...argv: string[]) => runCli([...argv, '--data-dir', folder.path]);
  expect((await wavepool('tenants', 'set', 'a', '--weight', '2', '--concurrency', '3')).code).toBe(
    0,
  );
  expect((await wavepool('tenants', 'set', '*', '--concurrency', '1')).code).toBe(0);
  const tenants = JSON.parse((await wavepool('tenants', 'list', '--json')).stdout);
  expect(tenants).toEqual([
    { tenant: '*', weight: 1, concurrency: 1, waiting: 0, running: 0 },
    { tenant: 'a', weight: 2, concurrency: 3, waiting: 0, running: 0 },
  ]);
  expect((await wavepool('tenants', 'list')).stdout).toMatch(/^a +2 +3 +0 +0$/m);
  expect((await wavepool('tenants', 'remove', 'a')).code).toBe(0);
  expect((await wavepool('tenants', 'remove', 'a')).code).toBe(2);

  expect((await wavepool('limits', 'set', 'moonshine-tiny', '100/1m')).code).toBe(0);
  const limits = JSON.parse((await wavepool('limits', 'list', '--json')).stdout);
  expect(limits).toEqual([
    { model: 'moonshine-tiny', rateLimit: { jobs: 100, durationMs: 60_000 } },
  ]);
  expect((await wavepool('limits', 'remove', 'moonshine-tiny')).code).toBe(0);
  expect((await wavepool('limits', 'remove', 'moonshine-tiny')).code).toBe(2);

  const cron = ['--cron', '0 3 * * *', '--timezone', 'Europe/Berlin'];
  const add = [
    'schedules',
    'add',
    'nightly',
    '/audio/news.wav',
    '--tenant',
    'b',
    '--priority',
    '5',
  ];
  const added = await wavepool(...add, ...cron);
  expect(added.stderr).toContain('schedule nightly: next at 20');
  const schedules = JSON.parse((await wavepool('schedules', 'list', '--json')).stdout);
  expect(schedules).toMatchObject([
    {
      id: 'nightly',
      cron: '0 3 * * *',
      timezone: 'Europe/Berlin',
      scheduled: { model: 'moonshine-tiny', job: { tenant: 'b', priority: 5 } },
    },
  ]);
  expect((await wavepool('schedules', 'list')).stdout).toContain('/audio/news.wav');
  expect((await wavepool('schedules', 'remove', 'nightly')).code).toBe(0);
  expect((await wavepool('schedules', 'remove', 'nightly')).code).toBe(2);
}, 60_000);

test('values that there are not are usage errors', async () => {
  for (const argv of [
    ['tenants', 'set', 'a', '--weight', '17'],
    ['tenants', 'set', 'a', '--concurrency', '0'],
    ['limits', 'set', 'm', '100'],
    ['schedules', 'add', 'a', '/a.wav', '--every', 'daily'],
  ]) {
    expect((await runCli(argv)).code, argv.join(' ')).toBe(2);
  }
});
