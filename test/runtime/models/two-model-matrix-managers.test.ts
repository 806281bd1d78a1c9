/** The contract's matrix of two models of one worker: while a manager is at work on A, or waits for both. */
import { afterEach, describe, expect, test } from 'vitest';
import { expectAllOver } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import {
  AT_REST,
  bulkWaiting,
  expectAllSucceeded,
  reconfiguring,
  unloading,
} from './matrix-fixture.ts';

afterEach(expectAllOver);

/** A reconfigures while one request runs on B. */
async function reconfiguringBesideWork(slots: number) {
  const all = await reconfiguring(slots);
  const running = all.submit('b');
  await turn();
  expect(all.status('b')).toMatchObject({ state: 'ready', activeSlots: 1 });
  return { ...all, running };
}

describe.each([1, 2])('A reconfiguring, B running, with %i slots', (n) => {
  test('A reconfiguring, B running × request to A', async () => {
    const all = await reconfiguringBesideWork(n);
    const { change, running, open, submit, status, ranOn, finishAll } = all;
    const seen = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'reconfiguring', queuedRequests: 1 });
    open();
    await finishAll();
    expectAllSucceeded([change, running, seen]);
    expect([ranOn('a.gguf'), ranOn('next.gguf')]).toEqual([0, 1]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
  });

  test('A reconfiguring, B running × request to B', async () => {
    const all = await reconfiguringBesideWork(n);
    const { change, running, open, submit, status, finish, finishAll } = all;
    const seen = submit('b');
    await turn();
    expect(status('b')).toMatchObject({ activeSlots: n, queuedRequests: 2 - n });
    await finish('b.gguf');
    await finish('b.gguf');
    expectAllSucceeded([running, seen]);
    expect([change.settled, status('a').state]).toEqual([false, 'reconfiguring']);
    open();
    await finishAll();
    expectAllSucceeded([change]);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('A reconfiguring, B running × reconfigure A', async () => {
    const all = await reconfiguringBesideWork(n);
    const { change, running, open, reconfigure, status, finishAll, count } = all;
    const last = reconfigure('a', 'last.gguf');
    await turn();
    expect(status('a')).toMatchObject({ state: 'reconfiguring', waitingManagers: 1 });
    expect([last.settled, count('load last.gguf')]).toEqual([false, 0]);
    open();
    await turn();
    expectAllSucceeded([change, last]);
    expect(running.settled).toBe(false);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'last.gguf' });
    await finishAll();
    expectAllSucceeded([running]);
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A reconfiguring, B running × unload A', async () => {
    const all = await reconfiguringBesideWork(n);
    const { change, running, open, unload, status, finishAll } = all;
    const ending = unload('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'reconfiguring', waitingManagers: 1 });
    open();
    await turn();
    expectAllSucceeded([change, ending]);
    expect(running.settled).toBe(false);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', path: 'next.gguf' });
    await finishAll();
    expectAllSucceeded([running]);
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('A reconfiguring, B running × unload A and B together', async () => {
    const all = await reconfiguringBesideWork(n);
    const { change, running, open, unloadMany, status, states, finish } = all;
    const bulk = unloadMany('a', 'b');
    expect([status('a').waitingManagers, status('b').waitingManagers]).toEqual([1, 1]);
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'reconfiguring', 'ready']);
    await finish('b.gguf');
    expectAllSucceeded([running]);
    expect([bulk.settled, ...states()]).toEqual([false, 'reconfiguring', 'unloaded']);
    open();
    await turn();
    expectAllSucceeded([change]);
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, loaded: false });
  });
});

describe.each([1, 2])('A unloading slowly, B ready, with %i slots', (n) => {
  test('A unloading slowly, B ready × request to A', async () => {
    const { ending, open, submit, status, finishAll, count } = await unloading(n);
    const seen = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'unloading', queuedRequests: 1 });
    expect(count('load a.gguf')).toBe(1);
    open();
    await finishAll();
    expectAllSucceeded([ending, seen]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 2 });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A unloading slowly, B ready × request to B', async () => {
    const { ending, open, submit, status, finish } = await unloading(n);
    const seen = submit('b');
    await turn();
    expect(status('b')).toMatchObject({ activeSlots: 1, queuedRequests: 0 });
    await finish('b.gguf');
    expectAllSucceeded([seen]);
    expect([ending.settled, status('a').state]).toEqual([false, 'unloading']);
    open();
    await turn();
    expectAllSucceeded([ending]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('A unloading slowly, B ready × reconfigure A', async () => {
    const { ending, open, reconfigure, status, count } = await unloading(n);
    const change = reconfigure('a', 'next.gguf');
    await turn();
    expect(status('a')).toMatchObject({ state: 'unloading', path: 'a.gguf', waitingManagers: 1 });
    expect(count('load next.gguf')).toBe(0);
    open();
    await turn();
    expectAllSucceeded([ending, change]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A unloading slowly, B ready × unload A', async () => {
    const { ending, open, unload, status, states, count } = await unloading(n);
    const again = unload('a');
    await turn();
    expect([again.settled, status('a').waitingManagers]).toEqual([false, 1]);
    open();
    await turn();
    expectAllSucceeded([ending, again]);
    expect([count('close weights a.gguf'), ...states()]).toEqual([1, 'unloaded', 'ready']);
    expect(status('a')).toMatchObject(AT_REST);
  });

  test('A unloading slowly, B ready × unload A and B together', async () => {
    const { ending, open, unloadMany, status, states, count } = await unloading(n);
    const bulk = unloadMany('a', 'b');
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'unloading', 'unloaded']);
    expect(count('close weights b.gguf')).toBe(1);
    open();
    await turn();
    expectAllSucceeded([ending]);
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, loaded: false });
  });
});

describe.each([1, 2])('a bulk unload already waits for both, with %i slots', (n) => {
  test('a bulk unload already waits for both × request to A', async () => {
    const { older, bulk, submit, status, states, finish, finishAll, count } = await bulkWaiting(n);
    const seen = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 1, waitingManagers: 1 });
    await finish('a.gguf');
    expect([seen.settled, count('close weights a.gguf'), count('load a.gguf')]).toEqual([
      ...[false, 1, 2],
    ]);
    expect([bulk.settled, ...states()]).toEqual([false, 'ready', 'ready']);
    await finishAll();
    expectAllSucceeded([...older, seen]);
    expect(bulk.value?.unloaded).toEqual(['a', 'b']);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 2 });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });

  test('a bulk unload already waits for both × request to B', async () => {
    const { older, bulk, submit, status, finish, finishAll } = await bulkWaiting(n);
    const seen = submit('b');
    await turn();
    expect(status('b')).toMatchObject({ activeSlots: n, queuedRequests: 1, waitingManagers: 1 });
    await finish('a.gguf');
    expect([seen.settled, status('a').state, status('b').generation]).toEqual([
      ...[false, 'unloaded', 1],
    ]);
    await finishAll();
    expectAllSucceeded([...older, seen]);
    expect(bulk.value?.unloaded).toEqual(['a', 'b']);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 2 });
  });

  test('a bulk unload already waits for both × reconfigure A', async () => {
    const { older, bulk, reconfigure, status, finish, finishAll, engine } = await bulkWaiting(n);
    const change = reconfigure('a', 'next.gguf');
    await turn();
    expect(status('a')).toMatchObject({ path: 'a.gguf', waitingManagers: 2 });
    const before = engine.events.length;
    await finish('a.gguf');
    expect(engine.events.slice(before)).toEqual([
      ...['close sessions a.gguf', 'close weights a.gguf', 'load next.gguf', `pool next.gguf ${n}`],
    ]);
    expect(change.value).toMatchObject({ reconfigured: false });
    expect(bulk.settled).toBe(false);
    await finishAll();
    expectAllSucceeded(older);
    expect(bulk.value?.unloaded).toEqual(['a', 'b']);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'unloaded' });
  });

  test('a bulk unload already waits for both × unload A', async () => {
    const { older, bulk, unload, status, finish, finishAll, count } = await bulkWaiting(n);
    const ending = unload('a');
    await turn();
    expect([ending.settled, status('a').waitingManagers]).toEqual([false, 2]);
    await finish('a.gguf');
    expectAllSucceeded([ending]);
    expect([bulk.settled, count('close weights a.gguf')]).toEqual([false, 1]);
    await finishAll();
    expectAllSucceeded(older);
    expect(bulk.value?.unloaded).toEqual(['a', 'b']);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, loaded: false });
  });

  test('a bulk unload already waits for both × unload A and B together', async () => {
    const all = await bulkWaiting(n);
    const { older, bulk, unloadMany, submit, status, states, finish, finishAll, count } = all;
    const between = submit('a');
    const crossed = unloadMany('b', 'a');
    expect([status('a').waitingManagers, status('b').waitingManagers]).toEqual([2, 2]);
    await finish('b.gguf');
    expect([bulk.settled, crossed.settled, ...states()]).toEqual([
      ...[false, false, 'ready', 'unloaded'],
    ]);
    // The request joined A between the two: it runs when the first has freed A, and before the second does.
    await finish('a.gguf');
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect([between.settled, crossed.settled, status('a').generation]).toEqual([false, false, 2]);
    await finishAll();
    expectAllSucceeded([...older, between]);
    expect(crossed.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect([count('close weights a.gguf'), count('close weights b.gguf')]).toEqual([2, 1]);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, loaded: false });
  });
});
