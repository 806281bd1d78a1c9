import { expect, test } from 'vitest';
import { Quarantine } from '../../src/worker/quarantine.ts';

const never = () => new AbortController().signal;

/** Enters, and notes when it was let in. */
function enter(gate: Quarantine, name: string, log: string[], suspect = false, signal = never()) {
  return gate.enter(suspect, signal).then((leave) => {
    log.push(name);
    return leave;
  });
}

test('jobs run side by side, a suspect alone, in the order in which they came', async () => {
  const gate = new Quarantine();
  const log: string[] = [];
  const first = await enter(gate, 'first', log);
  const second = await enter(gate, 'second', log);
  const suspect = enter(gate, 'suspect', log, true);
  const another = enter(gate, 'another suspect', log, true);
  const late = enter(gate, 'late', log);
  first();
  await Promise.resolve();
  expect(log).toEqual(['first', 'second']);
  second();
  const leaveSuspect = await suspect;
  expect(log).toEqual(['first', 'second', 'suspect']);
  leaveSuspect();
  const leaveAnother = await another;
  expect(log.at(-1)).toBe('another suspect');
  leaveAnother();
  (await late)();
  expect(log.at(-1)).toBe('late');
});

test('a job that is ended while it waits lets the others in', async () => {
  const gate = new Quarantine();
  const log: string[] = [];
  const first = await enter(gate, 'first', log);
  const abort = new AbortController();
  const suspect = enter(gate, 'suspect', log, true, abort.signal);
  const late = enter(gate, 'late', log);
  abort.abort(new Error('cancelled'));
  await expect(suspect).rejects.toThrow('cancelled');
  await late;
  expect(log).toEqual(['first', 'late']);
  first();
  await expect(enter(gate, 'gone', log, false, AbortSignal.abort())).rejects.toThrow();
});
