import { expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { runCli } from '../run-cli.ts';

const NAMES = [
  'node',
  'addon',
  'compiler',
  'cmake',
  'nlohmann json',
  'cpu',
  'redis',
  'ffmpeg',
  'models',
  'data directory',
  'disk',
  'memory',
];

test('doctor --json lists every check with its state', async () => {
  const { stdout } = await runCli(['doctor', '--json']);
  const { ok, checks } = JSON.parse(stdout);
  expect(checks.map((check: { name: string }) => check.name)).toEqual(NAMES);
  for (const { state, detail } of checks) {
    expect(['ok', 'warning', 'missing']).toContain(state);
    expect(detail).not.toBe('');
  }
  expect(ok).toBe(checks.every(({ state }: { state: string }) => state !== 'missing'));
});

test('what is missing ends with exit code 3 and the command that brings it', async () => {
  const loadAddon = () =>
    Promise.reject(new WavepoolError('ADDON_MISSING', '/build/wavepool.node'));
  const { code, stdout } = await runCli(['doctor'], { loadAddon });
  expect(code).toBe(3);
  expect(stdout).toMatch(/^addon +MISSING +the native addon is not built: \/build/m);
  expect(stdout).toMatch(/^ {2}addon +wavepool doctor --build$/m);
});

test('models that are not installed are a warning with the command that pulls them', async () => {
  const { stdout } = await runCli(['doctor', '--json']);
  const { checks } = JSON.parse(stdout);
  const models = checks.find(({ name }: { name: string }) => name === 'models');
  expect(models).toMatchObject({
    state: 'warning',
    fix: 'wavepool models pull moonshine-tiny silero-vad',
  });
});

test('a Redis of one’s own that is not there is missing', async () => {
  const argv = ['doctor', '--json', '--redis', 'unix:///nowhere/redis.sock'];
  const { code, stdout } = await runCli(argv);
  const { checks } = JSON.parse(stdout);
  const redis = checks.find((check: { name: string }) => check.name === 'redis');
  expect(redis).toMatchObject({ state: 'missing', fix: expect.stringContaining('--redis') });
  expect(code).toBe(3);
});
