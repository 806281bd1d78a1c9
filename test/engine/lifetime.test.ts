import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { folder } from './engine-fixture.ts';
import { writeFakeModel, writeWav } from './fake-model.ts';
import { TEST_ADDON, TEST_ADDON_BUILT } from './test-addon.ts';

/** Plain JavaScript against the addon itself: `start()` resolves when work of every kind is in progress. */
function script(afterwards: string): string {
  const model = writeFakeModel(path.join(folder, 'model.gguf'));
  const wav = writeWav(path.join(folder, 'audio.wav'), 2);
  return `
    const addon = require(${JSON.stringify(TEST_ADDON)});
    const item = (audio, options) => ({ audio, startSample: 0, endSample: 16000, state: undefined, options });
    const openPool = async () =>
      (await addon.loadModel(${JSON.stringify(model)})).createPool({ slots: 2, mode: 'offline', threads: 1, maxBatch: 2 });
    const openAudio = async () => {
      const audio = await addon.openFile(${JSON.stringify(wav)});
      await audio.decodeUntil(32000);
      return audio;
    };
    async function start() {
      const audio = await openAudio();
      const pool = await openPool();
      // The first item has ended, so the second one hangs in native code.
      await new Promise((resolve) => pool.run(0, [item(audio, {}), item(audio, { fault: 'hang' })], resolve));
      void addon.openPipe(addon.createPipe().readDescriptor, 600000);
      void addon.loadModel(${JSON.stringify(model)});
      void (await openPool()).close();
      void (await addon.openFile(${JSON.stringify(wav)})).decodeUntil(32000);
    }
    ${afterwards}`;
}

describe.skipIf(!TEST_ADDON_BUILT)('lifetime', () => {
  test('a worker thread can be terminated with native work in progress, again and again', async () => {
    const source = script(
      `start().then(() => require('node:worker_threads').parentPort.postMessage('running'));`,
    );
    for (let round = 0; round < 5; round += 1) {
      const worker = new Worker(source, { eval: true });
      expect(await once(worker, 'message')).toEqual(['running']);
      expect(await worker.terminate()).toBe(1);
    }
  });

  test('a process can exit with native work in progress', () => {
    const { status, signal, stderr } = spawnSync(process.execPath, [
      '-e',
      script('start().then(() => process.exit(7));'),
    ]);
    expect({ status, signal, stderr: String(stderr) }).toEqual({
      status: 7,
      signal: null,
      stderr: '',
    });
  });

  test('handles in use keep nothing alive once they are idle: the process ends by itself', () => {
    const { status } = spawnSync(process.execPath, [
      '-e',
      script(`(async () => {
        globalThis.audio = await openAudio();
        globalThis.pool = await openPool();
        await pool.run(0, [item(audio, {})], () => {}).done;
      })();`),
    ]);
    expect(status).toBe(0);
  });

  test('work goes on when its handles are collected, and idle handles can be collected', () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [
      '--expose-gc',
      '-e',
      script(`
        const collected = [];
        const registry = new FinalizationRegistry((name) => collected.push(name));
        async function run() {
          const audio = await openAudio();
          const pool = await openPool();
          registry.register(audio, 'audio');
          registry.register(pool, 'pool');
          addon.setFault('gate', true);
          return pool.run(1, [item(audio, {})], (index, outcome) => collected.push(outcome.ok)).done;
        }
        (async () => {
          const running = run();
          // Until run() has returned its promise, whose closure then is gone.
          for (let turn = 0; turn < 100; turn += 1) {
            await new Promise((resolve) => setImmediate(resolve));
            gc();
          }
          addon.setFault('gate', false);
          await running;
          while (collected.length < 3) {
            gc();
            await new Promise((resolve) => setImmediate(resolve));
          }
          process.stdout.write(collected.sort().join());
        })();`),
    ]);
    expect({ status, stderr: String(stderr) }).toEqual({ status: 0, stderr: '' });
    expect(String(stdout)).toBe('audio,pool,true');
  });

  test('the addon refuses what are not its handles', () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [
      '-e',
      script(`(async () => {
        const audio = await openAudio();
        const pool = await openPool();
        const attempts = [
          () => new audio.constructor(),
          () => new pool.constructor({}),
          () => pool.run.call(audio, 0, [], () => {}),
          () => pool.run(0, [item({}, {})], () => {}),
          () => pool.run(0, [item(pool, {})], () => {}),
          () => pool.run(0, [{ ...item(audio, {}), state: audio }], () => {}),
          () => pool.run(0, [item(audio, { deep: {} })], () => {}),
          () => pool.run(0, [item(audio, {})]),
          () => pool.run(0.5, [item(audio, {})], () => {}),
          () => addon.openFile(7),
          () => audio.decodeUntil('all'),
        ];
        for (const attempt of attempts) {
          try {
            attempt();
            process.stdout.write('accepted: ' + attempt + '\\n');
          } catch {}
        }
      })();`),
    ]);
    expect({ status, stdout: String(stdout), stderr: String(stderr) }).toEqual({
      status: 0,
      stdout: '',
      stderr: '',
    });
  });
});
