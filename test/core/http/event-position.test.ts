import { expect, test } from 'vitest';
import {
  decodeJobPosition,
  decodePositions,
  encodeJobPosition,
  encodePositions,
  isAfter,
} from '../../../src/core/http/event-position.ts';

test('places in many queues survive the way to a client and back', () => {
  const positions = new Map([
    ['moonshine-tiny', '1782345678901-0'],
    ['whisper-tiny.en', '1782345678902-41'],
    ['new_model', '0-0'],
  ]);
  const text = encodePositions(positions);
  expect(decodePositions(text)).toEqual(positions);
  // Fit for a header, and short.
  expect(text).toMatch(/^[\x21-\x7e]+$/);
  expect(text.length).toBeLessThan(75);
});

test('the place in one job’s stream survives, too', () => {
  for (const endedAt of [undefined, 1_782_345_678_903]) {
    const position = { event: '1782345678901-7', segment: '0-0', endedAt };
    expect(decodeJobPosition(encodeJobPosition(position))).toEqual(position);
  }
});

test('what is no place is not taken for one', () => {
  for (const text of ['', 'a', 'a:', ':1', 'a:1-2', 'a:1,', 'A:1', 'a:1.2.3', 'a:1;2']) {
    expect(decodePositions(text), text).toBeUndefined();
  }
  for (const text of ['', '1', '1;', '1;2;3;4', 'a:1;2', '1-0;2-0']) {
    expect(decodeJobPosition(text), text).toBeUndefined();
  }
});

test('places are compared as numbers', () => {
  expect(isAfter('10-0', '9-5')).toBe(true);
  expect(isAfter('9-10', '9-9')).toBe(true);
  expect(isAfter('9-9', '9-9')).toBe(false);
});
