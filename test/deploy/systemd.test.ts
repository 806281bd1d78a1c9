import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

function unit(name: string): Map<string, string[]> {
  const text = readFileSync(new URL(`../../deploy/systemd/${name}`, import.meta.url), 'utf8');
  const settings = new Map<string, string[]>();
  for (const [, key = '', value = ''] of text.matchAll(/^([A-Za-z]\w*)=(.*)$/gm)) {
    settings.set(key, [...(settings.get(key) ?? []), value]);
  }
  return settings;
}

describe.each(['wavepool-server.service', 'wavepool-worker.service'])('%s', (name) => {
  const settings = unit(name);

  test('runs as a user of its own with as few rights as will do', () => {
    expect(settings.get('User')).toEqual(['wavepool']);
    expect(settings.get('CapabilityBoundingSet')).toEqual(['']);
    expect(settings.get('ProtectSystem')).toEqual(['strict']);
    for (const key of ['NoNewPrivileges', 'PrivateTmp', 'PrivateDevices', 'RestrictNamespaces']) {
      expect(settings.get(key), key).toEqual(['true']);
    }
    // Node would not start.
    expect(settings.has('MemoryDenyWriteExecute')).toBe(false);
  });

  test('is started again, but not with wrong settings, and ends through its own process', () => {
    expect(settings.get('Restart')).toEqual(['on-failure']);
    expect(settings.get('RestartPreventExitStatus')).toEqual(['2']);
    expect(settings.get('KillMode')).toEqual(['mixed']);
  });

  test('knows every variable that it names from the file of settings', () => {
    const defined = [...unit('wavepool.env').keys()];
    const named = (settings.get('ExecStart') ?? [])
      .flatMap((line) => [...line.matchAll(/\$\{?(\w+)\}?/g)])
      .map(([, variable]) => variable);
    expect(named.length).toBeGreaterThan(1);
    expect(defined).toEqual(expect.arrayContaining(named));
  });
});

test('workers get the time that they take to finish running jobs', () => {
  expect(Number(unit('wavepool-worker.service').get('TimeoutStopSec'))).toBeGreaterThan(600);
});
