import { expect, test } from 'vitest';
import { MOST_YIELDS, PATIENCE_MS, Quarantine } from '../../../src/worker/job/quarantine.ts';
import { ManualClock } from '../../runtime/manual-clock.ts';

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

test('a suspect that waits for a long job lets others by until that has ended, a few times', async () => {
  const clock = new ManualClock();
  const gate = new Quarantine(clock);
  const log: string[] = [];
  let leaveLong = await enter(gate, 'long', log);
  const suspect = enter(gate, 'suspect', log, true);
  for (let time = 0; time < MOST_YIELDS; time += 1) {
    const late = enter(gate, `late ${time}`, log);
    await clock.advance(PATIENCE_MS - 1);
    expect(log.at(-1)).not.toBe(`late ${time}`);
    await clock.advance(1);
    const leaveLate = await late;
    // The door closes again for who comes when the long one has ended, while the other still runs.
    leaveLong();
    leaveLong = leaveLate;
  }
  const last = enter(gate, 'last', log);
  await clock.advance(10 * PATIENCE_MS);
  expect(log).toEqual(['long', 'late 0', 'late 1', 'late 2']);
  leaveLong();
  (await suspect)();
  (await last)();
  expect(log.slice(-2)).toEqual(['suspect', 'last']);
});
