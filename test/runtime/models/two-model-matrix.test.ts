/** The contract's matrix of two models of one worker: requests and managers while A is quiet, loading or running. */
import { afterEach, describe, expect, test } from 'vitest';
import { expectAllOver } from '../lifecycle-fixture.ts';
import { turn } from '../manual-clock.ts';
import { failure } from '../slots/slots-fixture.ts';
import {
  AT_REST,
  expectAllSucceeded,
  full,
  loading,
  runningWithFreeSlots,
  unloaded,
} from './matrix-fixture.ts';

afterEach(expectAllOver);

describe.each([1, 2])('A unloaded, B ready, with %i slots', (n) => {
  test('A unloaded, B ready × request to A', async () => {
    const { holdLoad, submit, status, ranOn, finishAll } = await unloaded(n);
    const open = holdLoad('a.gguf');
    const seen = submit('a');
    await turn();
    expect([status('a').state, status('b').state, ranOn('a.gguf')]).toEqual([
      ...['loading', 'ready', 0],
    ]);
    open();
    await finishAll();
    expectAllSucceeded([seen]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A unloaded, B ready × request to B', async () => {
    const { submit, status, finishAll } = await unloaded(n);
    const seen = submit('b');
    await turn();
    expect(status('b')).toMatchObject({ activeSlots: 1, queuedRequests: 0 });
    await finishAll();
    expectAllSucceeded([seen]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'unloaded', generation: 0 });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A unloaded, B ready × reconfigure A', async () => {
    const { holdLoad, reconfigure, submit, status, finish } = await unloaded(n);
    const open = holdLoad('next.gguf');
    const change = reconfigure('a', 'next.gguf');
    const other = submit('b');
    await turn();
    expect(status('a')).toMatchObject({ exclusive: true, loaded: false, path: 'next.gguf' });
    await finish('b.gguf');
    expectAllSucceeded([other]);
    open();
    await change.ended;
    expect(change.value).toMatchObject({ reconfigured: false });
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A unloaded, B ready × unload A', async () => {
    const { engine, unload, states } = await unloaded(n);
    const before = [...engine.events];
    const ending = unload('a');
    await turn();
    expectAllSucceeded([ending]);
    expect([engine.events, states()]).toEqual([before, ['unloaded', 'ready']]);
  });

  test('A unloaded, B ready × unload A and B together', async () => {
    const { unloadMany, states, count } = await unloaded(n);
    const bulk = unloadMany('b', 'a');
    await turn();
    expect(bulk.value).toEqual({ unloaded: ['b', 'a'], notFound: [] });
    expect([count('close weights a.gguf'), count('close weights b.gguf')]).toEqual([0, 1]);
    expect(states()).toEqual(['unloaded', 'unloaded']);
  });
});

describe.each([1, 2])('A loading, B ready, with %i slots', (n) => {
  test('A loading, B ready × request to A', async () => {
    const { first, open, submit, status, ranOn, finishAll, count } = await loading(n);
    const seen = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', activeSlots: n, queuedRequests: 2 - n });
    expect(ranOn('a.gguf')).toBe(0);
    open();
    await finishAll();
    expectAllSucceeded([first, seen]);
    expect(count('load a.gguf')).toBe(1);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A loading, B ready × request to B', async () => {
    const { first, open, submit, status, finish, finishAll } = await loading(n);
    const seen = submit('b');
    await turn();
    expect(status('b')).toMatchObject({ activeSlots: 1, queuedRequests: 0 });
    await finish('b.gguf');
    expectAllSucceeded([seen]);
    expect([first.settled, status('a').state]).toEqual([false, 'loading']);
    open();
    await finishAll();
    expectAllSucceeded([first]);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('A loading, B ready × reconfigure A', async () => {
    const { first, open, submitMany, reconfigure, status, ranOn, finishAll } = await loading(n);
    const others = submitMany('a', n);
    const change = reconfigure('a', 'next.gguf');
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', path: 'a.gguf', waitingManagers: 1 });
    open();
    await turn();
    expect([change.settled, status('a').path]).toEqual([false, 'a.gguf']);
    await finishAll();
    expectAllSucceeded([first, ...others, change]);
    expect(ranOn('a.gguf')).toBe(n + 1);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A loading, B ready × unload A', async () => {
    const { first, open, unload, status, states, finishAll } = await loading(n);
    const ending = unload('a');
    await turn();
    expect(status('a')).toMatchObject({ state: 'loading', waitingManagers: 1 });
    open();
    await finishAll();
    expectAllSucceeded([first, ending]);
    expect(states()).toEqual(['unloaded', 'ready']);
    expect(status('a')).toMatchObject(AT_REST);
  });

  test('A loading, B ready × unload A and B together', async () => {
    const { first, open, unloadMany, states, status, finishAll, count } = await loading(n);
    const bulk = unloadMany('a', 'b');
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'loading', 'unloaded']);
    expect(count('close weights b.gguf')).toBe(1);
    open();
    await finishAll();
    expectAllSucceeded([first]);
    expect(bulk.value?.unloaded).toEqual(['b', 'a']);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, loaded: false });
  });
});

describe.each([1, 2])('A running with free slots, B ready, %i running', (n) => {
  test('A running with free slots, B ready × request to A', async () => {
    const { older, submit, unload, status, finishAll } = await runningWithFreeSlots(n);
    const admitted = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: n + 1, queuedRequests: 0 });
    await finishAll();
    expectAllSucceeded([...older, admitted]);

    const running = submit('a');
    await turn();
    const ending = unload('a');
    const behind = submit('a');
    await turn();
    expect(status('a')).toMatchObject({ activeSlots: 1, queuedRequests: 1, waitingManagers: 1 });
    await finishAll();
    expectAllSucceeded([running, ending, behind]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 2 });
  });

  test('A running with free slots, B ready × request to B', async () => {
    const { older, submit, status, finish, finishAll } = await runningWithFreeSlots(n);
    const seen = submit('b');
    await turn();
    expect(status('b')).toMatchObject({ activeSlots: 1, queuedRequests: 0 });
    await finish('b.gguf');
    expectAllSucceeded([seen]);
    expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 0 });
    await finishAll();
    expectAllSucceeded(older);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('A running with free slots, B ready × reconfigure A', async () => {
    const { older, reconfigure, status, finishAll, ranOn } = await runningWithFreeSlots(n);
    const change = reconfigure('a', 'next.gguf');
    await turn();
    expect(change.settled).toBe(false);
    expect(status('a')).toMatchObject({ state: 'ready', path: 'a.gguf', waitingManagers: 1 });
    await finishAll();
    expectAllSucceeded([...older, change]);
    expect(ranOn('a.gguf')).toBe(n);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A running with free slots, B ready × unload A', async () => {
    const { older, unload, status, states, finishAll } = await runningWithFreeSlots(n);
    const ending = unload('a');
    await turn();
    expect(ending.settled).toBe(false);
    expect(status('a')).toMatchObject({ state: 'ready', activeSlots: n, waitingManagers: 1 });
    await finishAll();
    expectAllSucceeded([...older, ending]);
    expect(states()).toEqual(['unloaded', 'ready']);
    expect(status('a')).toMatchObject(AT_REST);
  });

  test('A running with free slots, B ready × unload A and B together', async () => {
    const { older, unloadMany, status, states, finishAll } = await runningWithFreeSlots(n);
    const bulk = unloadMany('a', 'b');
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'ready', 'unloaded']);
    await finishAll();
    expectAllSucceeded(older);
    expect(bulk.value?.unloaded).toEqual(['b', 'a']);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, loaded: false });
  });
});

describe.each([1, 2])('A full with a queue, B ready, with %i slots', (n) => {
  test('A full with a queue, B ready × request to A', async () => {
    const { clock, older, submit, status, finish, finishAll } = await full(n);
    const inTurn = submit('a');
    const late = submit('a', { busyTimeoutMs: 50 });
    await clock.advance(49);
    expect([late.settled, status('a').queuedRequests]).toEqual([false, 3]);
    await clock.advance(1);
    expect(late.error).toEqual(failure('BUSY_TIMEOUT'));
    expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 2 });
    await finish('a.gguf');
    expect(status('a').queuedRequests).toBe(2 - n);
    await finishAll();
    expectAllSucceeded([...older, inTurn]);
    const calls = [older.at(-1), inTurn].map((each) => each?.value?.text.split(':')[0]);
    expect(calls).toEqual(n === 1 ? ['0.2', '0.3'] : ['0.2', '1.2']);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A full with a queue, B ready × request to B', async () => {
    const { older, submit, status, finish, finishAll } = await full(n);
    const seen = submit('b');
    await finish('b.gguf');
    await finish('b.gguf');
    expectAllSucceeded([seen]);
    expect(status('a')).toMatchObject({ activeSlots: n, queuedRequests: 1 });
    await finishAll();
    expectAllSucceeded(older);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, state: 'ready' });
  });

  test('A full with a queue, B ready × reconfigure A', async () => {
    const { older, reconfigure, status, ranOn, finish, finishAll } = await full(n);
    const change = reconfigure('a', 'next.gguf');
    await finish('a.gguf');
    expect([change.settled, status('a').path, ranOn('a.gguf')]).toEqual([false, 'a.gguf', n + 1]);
    expect(status('a')).toMatchObject({ activeSlots: 1, queuedRequests: 0, waitingManagers: 1 });
    await finishAll();
    expectAllSucceeded([...older, change]);
    expect(status('a')).toMatchObject({ ...AT_REST, state: 'ready', path: 'next.gguf' });
    expect(status('b')).toMatchObject({ ...AT_REST, state: 'ready', generation: 1 });
  });

  test('A full with a queue, B ready × unload A', async () => {
    const { older, unload, status, states, ranOn, finish, finishAll } = await full(n);
    const ending = unload('a');
    await finish('a.gguf');
    expect([ending.settled, ranOn('a.gguf')]).toEqual([false, n + 1]);
    expect(status('a')).toMatchObject({ activeSlots: 1, queuedRequests: 0, waitingManagers: 1 });
    await finishAll();
    expectAllSucceeded([...older, ending]);
    expect(states()).toEqual(['unloaded', 'ready']);
    expect(status('a')).toMatchObject(AT_REST);
  });

  test('A full with a queue, B ready × unload A and B together', async () => {
    const { runtime, older, unloadMany, states, status, finishAll } = await full(n);
    const placed: string[] = [];
    runtime.onChange(({ id, waitingManagers, exclusive }) => {
      placed.push(`${id} ${exclusive ? 'held' : waitingManagers}`);
    });
    const bulk = unloadMany('a', 'b');
    expect(placed.slice(0, 2)).toEqual(['a 1', 'b held']);
    await turn();
    expect([bulk.settled, ...states()]).toEqual([false, 'ready', 'unloaded']);
    await finishAll();
    expectAllSucceeded(older);
    expect(bulk.value?.unloaded).toEqual(['b', 'a']);
    for (const id of ['a', 'b']) expect(status(id)).toMatchObject({ ...AT_REST, loaded: false });
  });
});
