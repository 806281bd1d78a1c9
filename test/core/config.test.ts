import { expect, test } from 'vitest';
import { readConfig } from '../../src/core/config.ts';

test('without settings, data and models lie under the home folder', () => {
  const config = readConfig({ HOME: '/home/ada', PATH: '' });
  expect(config.dataDir).toBe('/home/ada/.local/share/wavepool');
  expect(config.modelsDir).toBe('/home/ada/.local/share/wavepool/models');
  expect(config.logLevel).toBe('info');
  expect(config.redisUrl).toBeUndefined();
});

test('XDG folders are used when they are absolute, and ignored when they are not', () => {
  expect(readConfig({ HOME: '/h', XDG_DATA_HOME: '/data' }).dataDir).toBe('/data/wavepool');
  expect(readConfig({ HOME: '/h', XDG_DATA_HOME: 'data' }).dataDir).toBe(
    '/h/.local/share/wavepool',
  );
  expect(readConfig({ XDG_RUNTIME_DIR: '/run/user/7' }).runtimeDirs[0]).toBe(
    '/run/user/7/wavepool',
  );
});

test('another data directory leaves the models where all share them', () => {
  const config = readConfig({ HOME: '/h', WAVEPOOL_DATA_DIR: '/elsewhere' });
  expect(config.dataDir).toBe('/elsewhere');
  expect(config.modelsDir).toBe('/h/.local/share/wavepool/models');
});

test('an input holds 24 hours at most unless another number of hours is given', () => {
  expect(readConfig({}).maxAudioSeconds).toBe(86_400);
  expect(readConfig({ WAVEPOOL_MAX_AUDIO_HOURS: '0.5' }).maxAudioSeconds).toBe(1_800);
  expect(readConfig({ WAVEPOOL_MAX_AUDIO_HOURS: '0' }).maxAudioSeconds).toBe(0);
  for (const wrong of ['-1', 'long', 'Infinity', 'NaN'])
    expect(() => readConfig({ WAVEPOOL_MAX_AUDIO_HOURS: wrong })).toThrow('number of hours');
});

test('an empty variable counts as not set, and an unknown log level is refused', () => {
  expect(readConfig({ WAVEPOOL_ADDON: '' }).addonPath).toBeUndefined();
  expect(() => readConfig({ WAVEPOOL_LOG_LEVEL: 'loud' })).toThrow('WAVEPOOL_LOG_LEVEL');
});

test('secrets and networks of webhooks are lists, and what is none is refused without being shown', () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const { webhooks } = readConfig({
    WAVEPOOL_WEBHOOK_SECRET: `${secret} ${secret}`,
    WAVEPOOL_WEBHOOK_NETWORKS: '10.0.0.0/8, fd00::/8',
  });
  expect(webhooks.secrets).toEqual([secret, secret]);
  expect(webhooks.allowedNetworks).toEqual(['10.0.0.0/8', 'fd00::/8']);
  const wrong = () => readConfig({ WAVEPOOL_WEBHOOK_SECRET: 'hunter2' });
  expect(wrong).toThrow('WAVEPOOL_WEBHOOK_SECRET');
  expect(wrong).not.toThrow('hunter2');
  expect(() => readConfig({ WAVEPOOL_WEBHOOK_NETWORKS: 'home' })).toThrow('10.0.0.0/8');
});
