/** §2.11: how many models may be resident, how long an idle one stays, how much memory a load must leave. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { FAMILY_DECIDES, type ModelPolicy } from '../../../src/runtime/models/slot-policy.ts';
import { expectAllOver, gate, gateFor, lifecycle, plan } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure, watch } from '../slots/slots-fixture.ts';

afterEach(expectAllOver);

const MIB = 1024 ** 2;

describe('the residency limit', () => {
  test('the least recently used idle model goes, whether it was loaded or run last', async () => {
    const { clock, register, runtime, submit, states, finishAll } = lifecycle({
      maxLoadedModels: 2,
    });
    for (const id of ['a', 'b', 'c']) register(id);
    await runtime.load('a');
    await clock.advance(1);
    await runtime.load('b');
    await clock.advance(1);
    submit('a');
    await finishAll();
    await runtime.load('c');
    expect(states()).toEqual(['ready', 'unloaded', 'ready']);
  });

  test('busy models are passed over, and models that somebody waits for', async () => {
    const { clock, register, runtime, submit, states, finishAll } = lifecycle({
      maxLoadedModels: 3,
    });
    for (const id of ['a', 'b', 'c', 'd']) {
      register(id);
      if (id !== 'd') await runtime.load(id);
      await clock.advance(1);
    }
    submit('a');
    await turn();
    const stream = await runtime.entry('b').acquireStream();
    await runtime.load('d');
    expect(states()).toEqual(['ready', 'ready', 'unloaded', 'ready']);
    stream.release();
    await finishAll();
  });

  test('without an idle model the load is refused at once, and nothing is evicted', async () => {
    const { register, runtime, submit, states, finishAll, engine } = lifecycle({
      maxLoadedModels: 1,
    });
    register('a');
    register('b');
    submit('a');
    await turn();
    const refused = failure('BUSY_TIMEOUT', 'no evictable victim');
    await expect(runtime.load('b')).rejects.toEqual(refused);
    const seen = submit('b');
    await turn();
    expect(seen.error).toEqual(refused);
    expect(states()).toEqual(['ready', 'failed']);
    expect(engine.events).toEqual(['load a.gguf', 'pool a.gguf 1']);
    await finishAll();
    await runtime.load('b');
    expect(states()).toEqual(['unloaded', 'ready']);
  });

  test('a model in its first load counts, and is no victim', async () => {
    const { engine, register, runtime, states } = lifecycle({ maxLoadedModels: 1 });
    register('a');
    register('b');
    const loading = gateFor('a.gguf');
    engine.onLoad = loading.wait;
    const first = watch(runtime.load('a'));
    await turn();
    await expect(runtime.load('b')).rejects.toEqual(failure('BUSY_TIMEOUT'));
    loading.open();
    await turn();
    expect([first.settled, ...states()]).toEqual([true, 'ready', 'failed']);
  });

  test('a load waits until the memory of what it evicted is free; a third one does not evict again', async () => {
    const { engine, register, runtime, status } = lifecycle({ maxLoadedModels: 2 });
    for (const id of ['a', 'b', 'c']) register(id);
    await runtime.load('a');
    const closing = gate();
    engine.onPoolClose = closing.wait;
    await runtime.load('b');
    const third = watch(runtime.load('c'));
    await turn();
    expect(status('a')).toMatchObject({ state: 'unloading', loaded: false, exclusive: true });
    expect([third.settled, engine.events.includes('load c.gguf')]).toEqual([false, false]);
    closing.open();
    await turn();
    expect([third.settled, status('b').state, status('c').state]).toEqual([true, 'ready', 'ready']);
  });

  test('with a limit only as many models load eagerly; the others come on first use', async () => {
    const { register, runtime, states, submit, finishAll } = lifecycle({ maxLoadedModels: 2 });
    for (const id of ['a', 'b', 'c']) register(id);
    await runtime.loadEagerly();
    expect(states()).toEqual(['ready', 'ready', 'unloaded']);
    const seen = submit('c');
    await finishAll();
    expect(seen.value).toBeDefined();
    expect(states()).toEqual(['unloaded', 'ready', 'ready']);
  });

  test('without one every registered model loads eagerly', async () => {
    const { register, runtime, states } = lifecycle();
    for (const id of ['a', 'b', 'c']) register(id);
    await runtime.loadEagerly();
    expect(states()).toEqual(['ready', 'ready', 'ready']);
  });
});

describe('idle models', () => {
  test('each has its own clock: a busy model keeps no other one in memory', async () => {
    const { clock, register, runtime, submit, states, status, finishAll } = lifecycle({
      idleUnloadMs: 1_000,
    });
    register('a');
    register('b');
    await runtime.loadEagerly();
    await clock.advance(600);
    submit('a');
    await finishAll();
    expect(status('a').idleMs).toBe(0);
    expect(status('b').idleMs).toBe(600);
    await clock.advance(399);
    expect(states()).toEqual(['ready', 'ready']);
    await clock.advance(1);
    expect(states()).toEqual(['ready', 'unloaded']);
    await clock.advance(600);
    expect(states()).toEqual(['unloaded', 'unloaded']);
    expect(clock.pending).toBe(0);
  });

  test('one that runs, streams or is waited for stays, and goes a full limit after its last use', async () => {
    const { clock, register, runtime, states, submit, finishAll } = lifecycle({
      idleUnloadMs: 1_000,
    });
    register('a');
    await runtime.load('a');
    const stream = await runtime.entry('a').acquireStream();
    await clock.advance(5_400);
    expect(states()).toEqual(['ready']);
    stream.release();
    await clock.advance(999);
    expect(states()).toEqual(['ready']);
    submit('a');
    await clock.advance(3_000);
    await finishAll();
    await clock.advance(999);
    expect(states()).toEqual(['ready']);
    await clock.advance(1_001);
    expect(states()).toEqual(['unloaded']);
  });

  test('a retired model loads again for the next request', async () => {
    const { clock, engine, register, submit, finishAll } = lifecycle({ idleUnloadMs: 10 });
    register('a');
    submit('a');
    await finishAll();
    await clock.advance(10);
    expect(engine.live).toEqual({ weights: 0, sessions: 0 });
    const seen = submit('a');
    await finishAll();
    expect(seen.value).toBeDefined();
  });

  test('a failing end is told to nobody but the listener for what fails in the background', async () => {
    const errors: unknown[] = [];
    const { clock, engine, register, runtime, states } = lifecycle({
      idleUnloadMs: 10,
      onBackgroundError: (error) => errors.push(error),
    });
    register('a');
    await runtime.load('a');
    engine.onPoolClose = () => Promise.reject(new Error('a session would not go'));
    await clock.advance(10);
    expect(errors).toEqual([new Error('a session would not go')]);
    expect([...states(), engine.live.weights]).toEqual(['unloaded', 0]);
    engine.live.sessions = 0;
  });
});

describe('the memory guard', () => {
  const files = (megabytes: Record<string, number>, options: Parameters<typeof lifecycle>[0]) => {
    const sizes = new Map(Object.entries(megabytes));
    const policy: ModelPolicy = {
      ...FAMILY_DECIDES,
      plan: ({ path: file }) => {
        const weightBytes = (sizes.get(file) ?? 0) * MIB;
        return Promise.resolve({ ...plan(file, weightBytes), sessionBytes: MIB });
      },
    };
    return lifecycle({ policy, ...options });
  };

  test('weights and a session per slot must fit with the headroom left free', async () => {
    let free = 111 * MIB;
    const { engine, register, runtime, status } = files(
      { 'a.gguf': 8 },
      { minFreeMemoryBytes: 100 * MIB, freeMemoryBytes: () => free },
    );
    register('a', { slots: 4 });
    await expect(runtime.load('a')).rejects.toEqual(
      failure('INSUFFICIENT_MEMORY', 'a needs 12 MiB with 100 MiB left free; 111 MiB are free'),
    );
    expect(status('a')).toMatchObject({ state: 'failed', loaded: false, activeSlots: 0 });
    expect(engine.events).toEqual([]);
    free += MIB;
    await runtime.load('a');
    expect(status('a').state).toBe('ready');
  });

  test('memory is looked at first: what would not help is not evicted', async () => {
    const { engine, register, runtime, states } = files(
      { 'b.gguf': 50 },
      { minFreeMemoryBytes: 1, freeMemoryBytes: () => 20 * MIB, maxLoadedModels: 1 },
    );
    register('a');
    register('b');
    await runtime.load('a');
    await expect(runtime.load('b')).rejects.toEqual(failure('INSUFFICIENT_MEMORY'));
    expect(states()).toEqual(['ready', 'failed']);
    expect(engine.events).toEqual(['load a.gguf', 'pool a.gguf 1']);
  });

  test('where evicting idle models is enough, they go, and the memory is counted again', async () => {
    let free = 20 * MIB;
    const { engine, register, runtime, states } = files(
      { 'b.gguf': 19 },
      { minFreeMemoryBytes: 1, freeMemoryBytes: () => free },
    );
    engine.onPoolClose = () => {
      free += 6_000;
      return Promise.resolve();
    };
    register('a');
    register('b');
    await runtime.load('a');
    free -= 1;
    await runtime.load('b');
    expect(states()).toEqual(['unloaded', 'ready']);
    free = 0;
    register('c');
    engine.onPoolClose = () => Promise.resolve();
    await expect(runtime.load('c')).rejects.toEqual(failure('INSUFFICIENT_MEMORY'));
    expect(states()).toEqual(['unloaded', 'ready', 'failed']);
  });

  test('loads in progress keep what they were promised: two that fit alone do not share one room', async () => {
    const { engine, register, runtime, states } = files(
      { 'a.gguf': 10, 'b.gguf': 10 },
      { minFreeMemoryBytes: 1, freeMemoryBytes: () => 15 * MIB },
    );
    register('a');
    register('b');
    const loading = gateFor('a.gguf');
    engine.onLoad = loading.wait;
    const first = watch(runtime.load('a'));
    await turn();
    await expect(runtime.load('b')).rejects.toEqual(failure('INSUFFICIENT_MEMORY'));
    loading.open();
    await turn();
    expect(first.settled).toBe(true);
    await runtime.load('b');
    expect(states()).toEqual(['ready', 'ready']);
  });

  test('a copy beside a working pool must fit and evicts nobody; the old pool serves on', async () => {
    let free = 30 * MIB;
    const { register, runtime, states, status, submit, finishAll } = files(
      { 'b.gguf': 20, 'c.gguf': 20 },
      { minFreeMemoryBytes: 1, freeMemoryBytes: () => free },
    );
    register('a');
    register('c');
    await runtime.loadEagerly();
    free = 10 * MIB;
    const change = (current: ReturnType<typeof status> | object) => ({
      ...runtime.entry('a').configuration,
      ...current,
      path: 'b.gguf',
    });
    await expect(runtime.reconfigure('a', change, { strategy: 'load-first' })).rejects.toEqual(
      failure('INSUFFICIENT_MEMORY'),
    );
    expect(states()).toEqual(['ready', 'ready']);
    expect(status('a').path).toBe('a.gguf');
    const seen = submit('a');
    await finishAll();
    expect(seen.value).toBeDefined();
  });

  describe('without a plan', () => {
    let folder = '';
    afterEach(() => rmSync(folder, { recursive: true, force: true }));
    const guarded = (place: string, freeMiB: number) => {
      folder = mkdtempSync(path.join(tmpdir(), 'wavepool-guard-'));
      const at = path.join(folder, place);
      const all = lifecycle({ minFreeMemoryBytes: MIB, freeMemoryBytes: () => freeMiB * MIB });
      all.register('a', { path: at });
      return { ...all, folder };
    };
    const four = Buffer.alloc(4 * MIB);

    test('the estimate is the file and a half with 128 MiB', async () => {
      const { runtime, folder: home } = guarded('a.gguf', 135);
      writeFileSync(path.join(home, 'a.gguf'), four);
      await runtime.load('a');
      await runtime.unload('a');
      writeFileSync(path.join(home, 'a.gguf'), Buffer.alloc(4 * MIB + 2));
      await expect(runtime.load('a')).rejects.toEqual(failure('INSUFFICIENT_MEMORY', '134 MiB'));
    });

    test.each([
      ['its model.gguf', ['model.gguf', 'other.gguf'], 134, 'INSUFFICIENT_MEMORY'],
      ['its only GGUF file', ['only.gguf', 'vocabulary.txt'], 134, 'INSUFFICIENT_MEMORY'],
      ['the whole of it', ['part1.safetensors', 'part2.safetensors'], 140, 'INSUFFICIENT_MEMORY'],
      ['nothing certain, and is not guarded', ['a.gguf', 'b.gguf'], 1, undefined],
    ])('a folder means %s', async (_, names, freeMiB, code) => {
      const { runtime, status, folder: home } = guarded('.', freeMiB);
      for (const name of names) writeFileSync(path.join(home, name), four);
      await runtime.load('a').catch(() => undefined);
      expect(status('a').failure?.code).toBe(code);
    });
  });
});
