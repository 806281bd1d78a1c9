/** §3.7 and §6: how a runtime ends: what drains, what is handed back untouched, what is waited for. */
import { afterEach, describe, expect, test } from 'vitest';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { DoubleEngine } from '../engine-double.ts';
import { CONFIGURATION, expectAllOver, gate, lifecycle } from '../lifecycle-fixture.ts';
import { ManualClock, turn } from '../manual-clock.ts';
import { failure, watch } from '../slots/slots-fixture.ts';

afterEach(expectAllOver);

async function ready() {
  const all = lifecycle();
  all.register('a');
  await all.runtime.load('a');
  return all;
}

describe('draining', () => {
  test('accepted work goes on until it has ended, and nothing new is admitted', async () => {
    const { runtime, submit, register, finishAll, engine } = await ready();
    const seen = [submit('a'), submit('a')];
    await turn();
    const closing = watch(runtime.close({ drainMs: 1_000 }));
    const entry = runtime.entry('a');
    const refused = failure('SHUTTING_DOWN');
    await expect(entry.acquireStream()).rejects.toEqual(refused);
    await expect(runtime.load('a')).rejects.toEqual(refused);
    await expect(runtime.unloadMany('all')).rejects.toEqual(refused);
    expect(() => register('b')).toThrow(refused);
    const late = submit('a');
    await turn();
    expect(late.error).toEqual(refused);
    await finishAll();
    expect(seen.map(({ value }) => value !== undefined)).toEqual([true, true]);
    expect(closing.settled).toBe(true);
    expect(engine.live).toEqual({ weights: 0, sessions: 0 });
  });

  test('at the deadline what waits ends with SHUTTING_DOWN, untouched; what runs is waited for', async () => {
    const { clock, runtime, submit, engine, finishAll } = await ready();
    const running = submit('a');
    await turn();
    const queued = submit('a');
    const prepared = watch(runtime.entry('a').acquireStream());
    const unloading = watch(runtime.unload('a'));
    const closing = watch(runtime.close({ drainMs: 500 }));
    await clock.advance(499);
    expect(queued.settled).toBe(false);
    await clock.advance(1);
    const refused = failure('SHUTTING_DOWN', 'a accepts no more work');
    expect([queued.error, prepared.error, unloading.error]).toEqual([refused, refused, refused]);
    expect([running.settled, closing.settled]).toEqual([false, false]);
    expect(engine.pools[0]?.runs).toHaveLength(1);
    await finishAll();
    expect([running.value !== undefined, closing.settled]).toEqual([true, true]);
  });

  test('a stream hears of the deadline, and its model is not destroyed before it lets go', async () => {
    const { clock, runtime, engine } = await ready();
    const stream = await runtime.entry('a').acquireStream();
    const closing = watch(runtime.close({ drainMs: 500 }));
    await clock.advance(499);
    expect(stream.ending.aborted).toBe(false);
    await clock.advance(1);
    expect(stream.ending.reason).toEqual(failure('SHUTTING_DOWN'));
    expect([closing.settled, engine.live.sessions]).toEqual([false, 1]);
    stream.release();
    await turn();
    expect(closing.settled).toBe(true);
  });

  test('a manager that waits in time is served before the end', async () => {
    const { runtime, submit, engine, finishAll } = await ready();
    submit('a');
    await turn();
    const change = watch(runtime.reconfigure('a', (now) => ({ ...now, slots: 2 })));
    const closing = watch(runtime.close({ drainMs: 500 }));
    await finishAll();
    expect(change.value).toMatchObject({ reconfigured: true });
    expect([closing.settled, engine.live.sessions]).toEqual([true, 0]);
  });
});

describe('during a load', () => {
  test('who waits for it leaves at the deadline; the load is waited for and freed', async () => {
    const { clock, engine, register, runtime, submit } = lifecycle();
    register('a');
    const loading = gate();
    engine.onLoad = loading.wait;
    const seen = submit('a');
    await turn();
    const queued = submit('a');
    const closing = watch(runtime.close({ drainMs: 100 }));
    await clock.advance(100);
    expect([seen.error, queued.error]).toEqual([
      failure('SHUTTING_DOWN'),
      failure('SHUTTING_DOWN'),
    ]);
    expect(closing.settled).toBe(false);
    loading.open();
    await turn();
    expect([closing.settled, engine.live.weights]).toEqual([true, 0]);
    expect(engine.pools.flatMap(({ runs }) => runs)).toEqual([]);
  });

  test('a manager in the middle of it leaves too', async () => {
    const { engine, register, runtime } = lifecycle();
    register('a');
    const loading = gate();
    engine.onPool = loading.wait;
    const managed = watch(runtime.load('a'));
    await turn();
    const closing = watch(runtime.close());
    await turn();
    expect(managed.error).toEqual(failure('SHUTTING_DOWN'));
    loading.open();
    await turn();
    expect([closing.settled, engine.live.sessions]).toEqual([true, 0]);
  });
});

test('closing twice is one close, and the first call decides how long it drains', async () => {
  const { runtime, submit, finishAll } = await ready();
  submit('a');
  await turn();
  const first = runtime.close();
  expect(runtime.close({ drainMs: 10_000 })).toBe(first);
  await finishAll();
  await first;
});

test('a model that fails to end keeps no other from its end', async () => {
  const engine = new DoubleEngine();
  const runtime = new Runtime(engine, new ManualClock());
  for (const id of ['a', 'b']) runtime.register(id, { ...CONFIGURATION, path: `${id}.gguf` });
  await runtime.loadEagerly();
  engine.onPoolClose = (path) =>
    path === 'a.gguf' ? Promise.reject(new Error('stuck')) : Promise.resolve();
  await expect(runtime.close()).rejects.toThrow('models could not be closed');
  expect(runtime.snapshot().models.map(({ state }) => state)).toEqual(['unloaded', 'unloaded']);
  expect(engine.live).toEqual({ weights: 0, sessions: 1 });
});
