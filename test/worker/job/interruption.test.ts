import { expect, test } from 'vitest';
import { Interruption } from '../../../src/worker/job/interruption.ts';

test('a signal that is asked for after the job was ended has been aborted, with the first reason', () => {
  const interruption = new Interruption();
  const [first, second] = [new Error('first'), new Error('second')];
  interruption.throwIfAborted();
  interruption.abort(first);
  interruption.abort(second);
  expect(interruption.signal.reason).toBe(first);
  expect(() => interruption.throwIfAborted()).toThrow(first);
});

test('everybody is given the same signal, which tells when the job is ended', () => {
  const interruption = new Interruption();
  const { signal } = interruption;
  expect(signal.aborted).toBe(false);
  interruption.abort(new Error('the end'));
  expect(interruption.signal).toBe(signal);
  expect(signal.reason).toMatchObject({ message: 'the end' });
});
