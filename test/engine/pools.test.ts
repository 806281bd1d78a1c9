import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadBinding } from '../../src/engine/binding.ts';
import type { Audio, SessionPool, TaskItem } from '../../src/runtime/engine.ts';
import {
  engine,
  folder,
  item,
  loadFake,
  openDecoded,
  openPool,
  summary,
  textAlone,
} from './engine-fixture.ts';
import { writeFakeModel, writeWav } from './fake-model.ts';
import { faults, TEST_ADDON, TEST_ADDON_BUILT } from './test-addon.ts';

describe.skipIf(!TEST_ADDON_BUILT)('build', () => {
  test('tells what the addon was made from', () => {
    expect(engine.build).toMatchObject({
      identity: expect.stringMatching(/^[0-9a-f]{64}$/),
      ggml: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      backend: 'cpu',
    });
  });
});

describe.skipIf(!TEST_ADDON_BUILT)('models and pools', () => {
  test('a model tells what it is', async () => {
    const model = await loadFake({ architecture: 'fake-vad', maxSegmentSeconds: 0 });
    expect(model.info).toEqual({
      family: 'fake-vad',
      task: 'vad',
      name: 'fake-vad for tests',
      weightBytes: 16,
      nativeBatch: true,
      maxSegmentSeconds: 0,
      windowSamples: 512,
      stateful: true,
      languages: [],
      optionNames: ['suppressBlank', 'fault', 'calls', 'rank'],
    });
    await model.close();
    await model.close();
    expect(() => model.createState()).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
  });

  test('a damaged file, a missing file and a failing load are told apart', async () => {
    const damaged = path.join(folder, 'damaged.gguf');
    writeFileSync(damaged, 'GGUF');
    await expect(engine.loadModel(damaged)).rejects.toMatchObject({ code: 'MODEL_FILE_INVALID' });
    await expect(engine.loadModel(path.join(folder, 'no.gguf'))).rejects.toMatchObject({
      code: 'INPUT_NOT_FOUND',
    });
    faults().setFault('load', true);
    await expect(loadFake()).rejects.toMatchObject({ code: 'MODEL_LOAD_FAILED' });
  });

  test('a pool has the slots that were asked for, within what the family supports', async () => {
    const pool = await openPool({ slots: 3, maxBatch: 7 });
    expect(pool).toMatchObject({ size: 3, capacity: 4, maxBatch: 7 });
    expect(pool.sessionBytes).toEqual([4096, 4096, 4096]);
    await expect(openPool({ slots: 5 })).rejects.toMatchObject({ code: 'SLOTS_UNSUPPORTED' });
    await expect(openPool({ slots: 17 })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(openPool({ threads: 0 })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    faults().setFault('clone', true);
    await expect(openPool({ slots: 2 })).rejects.toMatchObject({ code: 'MODEL_LOAD_FAILED' });
  });

  test('a pool keeps the weights when its model is closed', async () => {
    const model = await loadFake();
    const pool = await model.createPool({ slots: 2, mode: 'offline', threads: 1, maxBatch: 1 });
    await model.close();
    expect(await textAlone(pool, item(await openDecoded(1), 0))).toMatch(/^fake /);
  });
});

describe.skipIf(!TEST_ADDON_BUILT)('running', () => {
  test('outcomes arrive as items end, and are returned in the order of the items', async () => {
    const pool = await openPool();
    const audio = await openDecoded(3);
    const ranks = [2, 1, 3];
    const arrived: number[] = [];
    const items = ranks.map((rank, second) => item(audio, second, { rank }));
    const outcomes = await pool.run(0, items, (index) => arrived.push(index)).done;
    expect(arrived).toEqual([1, 0, 2]);
    const alone = [];
    for (const second of [0, 1, 2]) alone.push(await textAlone(pool, item(audio, second)));
    expect(outcomes.map(summary)).toEqual(alone);
    expect(new Set(alone).size).toBe(3);
  });

  test('a result carries text and token ids', async () => {
    const pool = await openPool();
    const [outcome] = await pool.run(0, [item(await openDecoded(1), 0)]).done;
    expect(outcome).toMatchObject({ ok: true, result: { truncated: false } });
    if (outcome?.ok !== true) return;
    expect(outcome.result.tokens).toBeInstanceOf(Int32Array);
    expect(outcome.result.tokens).toHaveLength(10);
    expect(outcome.result.probabilities).toEqual(new Float32Array());
  });

  test('a bad item fails alone', async () => {
    const pool = await openPool({}, { maxSegmentSeconds: 2 });
    const audio = await openDecoded(4);
    const tooLong = { ...item(audio, 0), endSample: 64_000 };
    const beyond = { ...item(audio, 3), endSample: 64_001 };
    const failing = item(audio, 1, { fault: 'run' });
    const outcomes = await pool.run(0, [tooLong, beyond, failing, item(audio, 0)]).done;
    expect(outcomes.slice(0, 3).map(summary)).toEqual([
      'INPUT_TOO_LARGE',
      'INVALID_REQUEST',
      'INTERNAL',
    ]);
    expect(outcomes[3]).toMatchObject({ ok: true });
  });

  for (const nativeBatch of [true, false]) {
    test(`cancelling a hanging item spares its mates (native batch: ${nativeBatch})`, async () => {
      const pool = await openPool({}, { nativeBatch });
      const audio = await openDecoded(3);
      const stop = new AbortController();
      const hanging = { ...item(audio, 1, { fault: 'hang' }), signal: stop.signal };
      const run = pool.run(0, [item(audio, 0), hanging, item(audio, 2)], (index) => {
        if (index === 0) stop.abort();
      });
      const outcomes = await run.done;
      expect(outcomes.map((outcome) => outcome.ok)).toEqual([true, false, true]);
      expect(outcomes.map(summary)[1]).toBe('CANCELLED');
      const late = { ...item(audio, 0, { fault: 'hang' }), signal: AbortSignal.abort() };
      expect((await pool.run(0, [late]).done).map(summary)).toEqual(['CANCELLED']);
    });
  }

  test('native code refuses to cancel an item that a batch does not have', async () => {
    const binding = loadBinding(TEST_ADDON);
    const model = await binding.loadModel(writeFakeModel(path.join(folder, 'model.gguf')));
    const pool = await model.createPool({ slots: 1, mode: 'offline', threads: 1, maxBatch: 1 });
    const audio = await binding.openFile(writeWav(path.join(folder, 'cancel.wav'), 1, 1));
    await audio.decodeUntil(16_000);
    const only = { audio, startSample: 0, endSample: 16_000, state: undefined, options: {} };
    const run = pool.run(0, [only], () => undefined);
    expect(() => run.cancel(1)).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
    await run.done;
    await pool.close();
    audio.close();
    model.close();
  });

  test('a slot that runs refuses a second batch, and takes the next once it is done', async () => {
    const pool = await openPool({ slots: 2 });
    const audio = await openDecoded(1);
    faults().setFault('gate', true);
    const first = pool.run(0, [item(audio, 0)]);
    expect(() => pool.run(0, [item(audio, 0)])).toThrow(
      expect.objectContaining({ code: 'SLOT_BUSY' }),
    );
    const other = pool.run(1, [item(audio, 0)]);
    faults().setFault('gate', false);
    const [one, two] = await Promise.all([first.done, other.done]);
    expect(one).toEqual(two);
    // Many times, because a slot must be free whenever its promise says so.
    for (let round = 0; round < 100; round += 1) {
      expect(await pool.run(0, [item(audio, 0)]).done).toEqual(one);
    }
  });

  test('closing waits for the running batch', async () => {
    const pool = await openPool();
    const audio = await openDecoded(1);
    faults().setFault('gate', true);
    const ends: string[] = [];
    const run = pool.run(0, [item(audio, 0)]);
    const noted = run.done.then((outcomes) => ends.push(...outcomes.map((o) => `ran ${o.ok}`)));
    const closed = pool.close().then(() => ends.push('closed'));
    expect(() => pool.run(0, [item(audio, 0)])).toThrow(
      expect.objectContaining({ code: 'INVALID_REQUEST' }),
    );
    faults().setFault('gate', false);
    await Promise.all([noted, closed]);
    expect(ends).toEqual(['ran true', 'closed']);
  });

  test('a batch that fails as a whole rejects', async () => {
    const pool = await openPool();
    const audio = await openDecoded(1);
    faults().setFault('lose-item', true);
    await expect(pool.run(0, [item(audio, 0)]).done).rejects.toMatchObject({ code: 'INTERNAL' });
    faults().clearFaults();
    const five = Array.from({ length: 5 }, () => item(audio, 0));
    await expect(pool.run(0, five).done).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    expect(() => pool.run(0, [])).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
    expect(() => pool.run(1, [item(audio, 0)])).toThrow(
      expect.objectContaining({ code: 'INVALID_REQUEST' }),
    );
  });

  test('a listener that throws costs nobody an outcome and is reported in the end', async () => {
    const pool = await openPool();
    const audio = await openDecoded(2);
    const arrived: number[] = [];
    const run = pool.run(0, [item(audio, 0), item(audio, 1)], (index) => {
      arrived.push(index);
      throw new Error('a broken listener');
    });
    await expect(run.done).rejects.toMatchObject({
      code: 'INTERNAL',
      detail: 'a broken listener',
    });
    expect(arrived).toEqual([0, 1]);
    expect(await textAlone(pool, item(audio, 0))).toMatch(/^fake /);
  });

  test('audio may be closed while a batch still reads it', async () => {
    const pool = await openPool();
    const audio = await openDecoded(1);
    const expected = await textAlone(pool, item(audio, 0));
    faults().setFault('gate', true);
    const run = pool.run(0, [item(audio, 0)]);
    await audio.close();
    faults().setFault('gate', false);
    expect((await run.done).map(summary)).toEqual([expected]);
    expect(() => pool.run(0, [item(audio, 0)])).toThrow(
      expect.objectContaining({ code: 'INVALID_REQUEST' }),
    );
  });
});

describe.skipIf(!TEST_ADDON_BUILT)('states', () => {
  const vadItem = (audio: Audio, start: number, count: number, state: TaskItem['state']) => ({
    audio,
    startSample: start,
    endSample: start + count,
    state,
    options: {},
  });
  const probabilities = async (pool: SessionPool, taskItem: TaskItem): Promise<number[]> => {
    const [outcome] = await pool.run(0, [taskItem]).done;
    return outcome?.ok === true ? [...outcome.result.probabilities] : [];
  };

  test('a state carries from one request to the next, and one request at a time uses it', async () => {
    const model = await loadFake({ architecture: 'fake-vad', maxSegmentSeconds: 0 });
    const pool = await model.createPool({ slots: 1, mode: 'offline', threads: 1, maxBatch: 4 });
    const audio = await openDecoded(2);
    const whole = await probabilities(pool, vadItem(audio, 0, 8 * 512, model.createState()));
    const state = model.createState();
    const first = await probabilities(pool, vadItem(audio, 0, 4 * 512, state));
    const second = await probabilities(pool, vadItem(audio, 4 * 512, 4 * 512, state));
    expect([...first, ...second]).toEqual(whole);
    expect(whole).toHaveLength(8);

    const twice = [vadItem(audio, 0, 512, state), vadItem(audio, 512, 512, state)];
    expect(() => pool.run(0, twice)).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
    expect(await probabilities(pool, vadItem(audio, 0, 512, state))).toHaveLength(1);
  });

  test('a state of another engine is refused, and a model without state gives none', async () => {
    const pool = await openPool();
    const audio = await openDecoded(1);
    const foreign = { ...item(audio, 0), state: { kind: 'task-state' } as const };
    expect(() => pool.run(0, [foreign])).toThrow(
      expect.objectContaining({ code: 'INVALID_REQUEST' }),
    );
    const model = await loadFake();
    expect(() => model.createState()).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
  });
});
