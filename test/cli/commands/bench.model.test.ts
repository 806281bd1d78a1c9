/** `wavepool bench` over the fake family: what it prints, not how fast anything is. */
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { TEST_ADDON, TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { installFake } from '../../support/fake-worker.ts';
import { temporaryFolder } from '../../support/redis.ts';
import { WavepoolProcess } from '../../support/wavepool-process.ts';

// A process is started here, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000 });

const built = test.skipIf(!TEST_ADDON_BUILT);

function bench(modelsDir: string, ...args: readonly string[]) {
  const argv = ['bench', '--models-dir', modelsDir, '--time', '50ms', ...args];
  return new WavepoolProcess(argv, { env: { WAVEPOOL_ADDON: TEST_ADDON } }).ended;
}

built(
  'every installed model is measured in every shape, and the figures are JSON when asked for',
  async () => {
    await using folder = await temporaryFolder();
    await installFake(folder.path, 'moonshine-tiny');
    const { code, stdout, stderr } = await bench(folder.path, '--json', '--batch', '2');
    expect(code, stderr).toBe(0);
    const { machine, decode, vad, models } = JSON.parse(stdout);
    expect(machine).toMatchObject({ cores: expect.any(Number), build: expect.any(String) });
    expect(decode.audioSecondsPerSecond).toBeGreaterThan(0);
    expect(vad).toBeNull();
    const [model] = models;
    expect(model).toMatchObject({ id: 'moonshine-tiny', firstResultSeconds: expect.any(Number) });
    expect(model.shapes.slice(0, 2)).toMatchObject([
      { slots: 1, threads: 1, batch: 1 },
      { slots: 1, threads: 1, batch: 2 },
    ]);
    for (const { audioSecondsPerSecond } of model.shapes) {
      expect(audioSecondsPerSecond).toBeGreaterThan(0);
    }
  },
);

test('a model that is not installed ends with the command that installs it', async () => {
  await using folder = await temporaryFolder();
  const { code, stderr } = await bench(join(folder.path, 'none'), '--model', 'moonshine-tiny');
  expect(code).toBe(2);
  expect(stderr).toContain('wavepool models pull moonshine-tiny');
});
