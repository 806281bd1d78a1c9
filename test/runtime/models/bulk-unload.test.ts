/** §2.10: unloading many models: places first, then waiting; L3, L17 and L18 on one event loop. */
import { afterEach, describe, expect, test } from 'vitest';
import { expectAllOver, gate, gateFor, lifecycle } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure, watch } from '../slots/slots-fixture.ts';

afterEach(expectAllOver);

async function ready(...ids: string[]) {
  const all = lifecycle();
  for (const id of ids) all.register(id);
  await all.runtime.loadEagerly();
  return all;
}

describe('one call', () => {
  test('names each model once, idle ones first, and the unknown ones apart', async () => {
    const { runtime, submit, states, finishAll } = await ready('a', 'b', 'c');
    submit('a');
    await turn();
    const bulk = watch(runtime.unloadMany(['a', 'c', 'a', 'x', 'b']));
    await turn();
    expect(states()).toEqual(['ready', 'unloaded', 'unloaded']);
    await finishAll();
    expect(bulk.value).toEqual({ unloaded: ['c', 'b', 'a'], notFound: ['x'] });
  });

  test('of all models, unloaded ones included', async () => {
    const { runtime, register } = await ready('a');
    register('b');
    expect(await runtime.unloadMany('all')).toEqual({ unloaded: ['a', 'b'], notFound: [] });
  });

  test('an id of another type is refused before anything is reserved', async () => {
    const { runtime, status } = await ready('a');
    const ids = ['a', 7] as unknown as string[];
    await expect(runtime.unloadMany(ids)).rejects.toEqual(failure('INVALID_REQUEST'));
    expect(status('a')).toMatchObject({ state: 'ready', waitingManagers: 0 });
  });

  test('L3 an idle model is freed while another one still loads; both are unloaded in the end', async () => {
    const { engine, runtime, register, submit, states, finishAll } = await ready('idle');
    register('slow');
    const loading = gateFor('slow.gguf');
    engine.onLoad = loading.wait;
    const seen = submit('slow');
    await turn();
    const bulk = watch(runtime.unloadMany('all'));
    await turn();
    expect(states()).toEqual(['unloaded', 'loading']);
    expect(engine.events).toContain('close weights idle.gguf');
    loading.open();
    await finishAll();
    expect([seen.value !== undefined, ...states()]).toEqual([true, 'unloaded', 'unloaded']);
    expect(bulk.value?.unloaded).toEqual(['idle', 'slow']);
  });

  test('cancelling it gives up the places that still wait; what was freed stays freed', async () => {
    const { runtime, submit, status, states, finishAll } = await ready('a', 'b');
    submit('b');
    await turn();
    const cancel = new AbortController();
    const bulk = watch(runtime.unloadMany('all', { signal: cancel.signal }));
    const behind = submit('b');
    await turn();
    cancel.abort();
    await turn();
    expect(bulk.error).toEqual(failure('CANCELLED'));
    expect(status('b')).toMatchObject({ waitingManagers: 0, queuedRequests: 1 });
    await finishAll();
    expect(behind.value).toBeDefined();
    expect(states()).toEqual(['unloaded', 'ready']);
  });

  test('when a place cannot be taken, none stays behind', async () => {
    const { runtime, status, submit, finishAll } = await ready('a', 'b');
    submit('a');
    await turn();
    const closing = runtime.entry('b').close();
    await expect(runtime.unloadMany('all')).rejects.toEqual(failure('SHUTTING_DOWN'));
    expect(status('a').waitingManagers).toBe(0);
    await finishAll();
    await closing;
  });

  test('one model that fails to end keeps no other from it, and is reported', async () => {
    const { engine, runtime, states } = await ready('a', 'b');
    engine.onPoolClose = (path) =>
      path === 'a.gguf' ? Promise.reject(new Error('stuck')) : Promise.resolve();
    await expect(runtime.unloadMany('all')).rejects.toThrow('stuck');
    expect(states()).toEqual(['unloaded', 'unloaded']);
    engine.live.sessions = 0;
  });
});

describe('several calls', () => {
  test('L17 with reversed selections meet in one order on every model, and nobody else waits for them', async () => {
    const { runtime, register, submit, status, finishAll } = await ready('a', 'b', 'c');
    submit('a');
    submit('b');
    await turn();
    const first = watch(runtime.unloadMany(['a', 'b', 'a']));
    const second = watch(runtime.unloadMany(['b', 'a']));
    await turn();
    expect([status('a').waitingManagers, status('b').waitingManagers]).toEqual([2, 2]);
    const unrelated = submit('c');
    await turn();
    expect(status('c').activeSlots).toBe(1);
    register('d');
    await finishAll();
    expect(unrelated.value).toBeDefined();
    expect(first.value?.unloaded.toSorted()).toEqual(['a', 'b']);
    expect(second.value?.unloaded.toSorted()).toEqual(['a', 'b']);
    for (const id of ['a', 'b']) {
      expect(status(id)).toMatchObject({ waitingManagers: 0, loaded: false });
    }
    const again = submit('a');
    await finishAll();
    expect(again.value).toBeDefined();
  });

  test('L18 all places are taken in one turn: no call can stand between the places of another', async () => {
    const { runtime, submit, finishAll } = await ready('a', 'b');
    submit('a');
    submit('b');
    await turn();
    const order: string[] = [];
    runtime.onChange(({ id, waitingManagers }) => order.push(`${id}${waitingManagers}`));
    const bulks = [runtime.unloadMany(['a', 'b']), runtime.unloadMany(['b', 'a'])];
    expect(order).toEqual(['a1', 'b1', 'b2', 'a2']);
    await finishAll();
    await Promise.all(bulks);
  });

  test('a model that was registered after the call is missed', async () => {
    const { engine, runtime, register, status } = await ready('a');
    const closing = gate();
    engine.onPoolClose = closing.wait;
    const bulk = watch(runtime.unloadMany('all'));
    register('later');
    await runtime.load('later');
    closing.open();
    await turn();
    expect(bulk.value?.unloaded).toEqual(['a']);
    expect(status('later').state).toBe('ready');
  });
});
