import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  ERROR_CODES,
  errorRow,
  formatFailure,
  parseFailure,
  toWavepoolError,
  WavepoolError,
} from '../../src/core/errors.ts';

const DOCUMENTED = [
  ...readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8').matchAll(
    /^\| `([A-Z_]+)` +\| (\d+) +\| (yes|no) +\|/gm,
  ),
];

describe('the error table', () => {
  test('docs/errors.md lists exactly its codes, in its order', () => {
    expect(DOCUMENTED.map(([, code]) => code)).toEqual(ERROR_CODES);
  });

  test('docs/errors.md tells the status and whether it is retried', () => {
    const told = DOCUMENTED.map(([, , status, retried]) => [Number(status), retried === 'yes']);
    const real = ERROR_CODES.map((code) => [errorRow(code).httpStatus, errorRow(code).retryable]);
    expect(told).toEqual(real);
  });

  test('native code uses only codes of the table', () => {
    const source = readFileSync(
      new URL('../../native/framework/error.cpp', import.meta.url),
      'utf8',
    );
    const names = [...source.matchAll(/"([A-Z_]{3,})"/g)].map(([, name]) => name);
    expect(names.length).toBeGreaterThan(5);
    expect(ERROR_CODES).toEqual(expect.arrayContaining(names));
  });
});

describe('WavepoolError', () => {
  test('puts the detail into the words of its code, whatever characters it holds', () => {
    expect(new WavepoolError('MODEL_UNKNOWN', "$& $' %s").message).toBe("unknown model: $& $' %s");
  });

  test('travels through a failure reason and back', () => {
    const error = new WavepoolError('INPUT_EMPTY', 'a: b.wav');
    expect(parseFailure(formatFailure(error))).toEqual({
      code: 'INPUT_EMPTY',
      message: error.message,
    });
  });

  test('a reason of unknown form is an internal error with all of its text', () => {
    expect(parseFailure('job stalled: too often')).toEqual({
      code: 'INTERNAL',
      message: 'job stalled: too often',
    });
  });

  test('anything thrown becomes one, with its cause kept', () => {
    const cause = new TypeError('x is not a function');
    expect(toWavepoolError(cause)).toMatchObject({
      code: 'INTERNAL',
      detail: cause.message,
      cause,
    });
    expect(toWavepoolError('text').detail).toBe('text');
    const own = new WavepoolError('CANCELLED', 'by you');
    expect(toWavepoolError(own)).toBe(own);
  });
});
