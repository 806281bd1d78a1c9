/** What a model needs is told before it is loaded. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { engine, folder, openPool } from './engine-fixture.ts';
import { type FakeModel, writeFakeModel } from './fake-model.ts';
import { faults, TEST_ADDON_BUILT } from './test-addon.ts';

const OPTIONS = { mode: 'offline', threads: 1, maxBatch: 8 } as const;

describe.runIf(TEST_ADDON_BUILT)('planModel', () => {
  const write = (model: FakeModel = {}) => writeFakeModel(path.join(folder, 'planned.gguf'), model);

  test('tells what the loaded model and its sessions then have', async () => {
    for (const architecture of ['fake', 'fake-vad'] as const) {
      const file = write({ architecture, capacity: 3 });
      const plan = await engine.planModel(file, OPTIONS);
      const loaded = await engine.loadModel(file);
      expect(plan.info).toEqual(loaded.info);
      expect(plan.weightBytes).toBe(loaded.info.weightBytes);
      expect(plan.capacity).toBe(3);
      await loaded.close();
    }
    const pool = await openPool();
    const { sessionBytes } = await engine.planModel(write(), OPTIONS);
    expect(pool.sessionBytes).toEqual([sessionBytes]);
  });

  test('promises no more sessions than any pool has', async () => {
    const { capacity } = await engine.planModel(write({ capacity: 99 }), OPTIONS);
    expect(capacity).toBe(16);
  });

  test('loads nothing', async () => {
    faults().setFault('load', true);
    const file = write();
    await expect(engine.loadModel(file)).rejects.toMatchObject({ code: 'MODEL_LOAD_FAILED' });
    await expect(engine.planModel(file, OPTIONS)).resolves.toMatchObject({ capacity: 4 });
  });

  test('names what is wrong with a file or the options', async () => {
    const invalid = path.join(folder, 'text.gguf');
    writeFileSync(invalid, 'not a model');
    const code = (file: string, options: object = {}) =>
      engine.planModel(file, { ...OPTIONS, ...options }).then(
        () => 'nothing',
        (error: { code: string }) => error.code,
      );
    expect(await code(path.join(folder, 'nothing.gguf'))).toBe('INPUT_NOT_FOUND');
    expect(await code(invalid)).toBe('MODEL_FILE_INVALID');
    expect(await code(write(), { threads: 0 })).toBe('INVALID_REQUEST');
    expect(await code(write(), { maxBatch: 1.5 })).toBe('INVALID_REQUEST');
    expect(await code(write(), { maxSegmentSeconds: 'long' })).toBe('INVALID_REQUEST');
    expect(await code(write(), { maxSegmentSeconds: undefined })).toBe('nothing');
  });
});
