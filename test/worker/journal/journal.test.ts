import { expect, test, vi } from 'vitest';
import { SAMPLE_RATE, type TaskResult } from '../../../src/runtime/engine.ts';
import type { Journal, JournalStore } from '../../../src/storage/journals.ts';
import { JobJournal, type JobJournalOptions } from '../../../src/worker/journal/journal.ts';

const RESULT: TaskResult = {
  text: 'ask not "what"\n',
  pieces: [
    {
      text: 'ask not',
      start: 0.1,
      end: 1 / 3,
      averageLogProbability: Math.fround(-0.1),
      noSpeechProbability: Number.MIN_VALUE,
      temperature: 0.2,
      words: [{ text: 'ask', start: 0, end: Math.PI, probability: 1 }],
    },
  ],
  language: 'en',
  tokens: Int32Array.of(1, -2, 2 ** 31 - 1),
  truncated: true,
  probabilities: Float32Array.of(0.1, 0.25),
};

/** Keeps lines in memory; a fingerprint that nobody wrote under has none. */
class MemoryStore implements JournalStore {
  readonly journals = new Map<string, string[]>();
  readonly appended: { lines: number; sync: boolean }[] = [];
  failWith: Error | undefined;

  holds(): Promise<boolean> {
    return Promise.resolve(this.journals.size > 0);
  }
  open(_jobId: string, fingerprint: string): Promise<Journal> {
    const lines = this.journals.get(fingerprint) ?? [];
    this.journals.set(fingerprint, lines);
    return Promise.resolve({
      lines: [...lines],
      append: (added, sync) => {
        if (this.failWith) return Promise.reject(this.failWith);
        this.appended.push({ lines: added.length, sync });
        lines.push(...added);
        return Promise.resolve();
      },
      close: () => Promise.resolve(),
    });
  }
  remove(): Promise<void> {
    this.journals.clear();
    return Promise.resolve();
  }
}

function open(store: JournalStore, options: Partial<JobJournalOptions> = {}): Promise<JobJournal> {
  return JobJournal.open({ store, jobId: 'job', identity: () => Promise.resolve({}), ...options });
}

function segment(start: number, seconds = 10) {
  return { startSample: start * SAMPLE_RATE, endSample: (start + seconds) * SAMPLE_RATE };
}

test('a result is found again exactly as it was, by its segment, its channel and its options', async () => {
  const store = new MemoryStore();
  const first = await open(store);
  for (const start of [0, 10, 20, 30]) first.add(segment(start), { words: true, n: 1 }, RESULT);
  await first.close();
  const second = await open(store);
  expect(second.size).toBe(4);
  expect(second.find(segment(10), { n: 1, words: true })).toEqual(RESULT);
  expect(second.find(segment(10), {})).toBeUndefined();
  expect(second.find(segment(11), { words: true, n: 1 })).toBeUndefined();
  expect(second.find({ ...segment(10), channel: 1 }, { words: true, n: 1 })).toBeUndefined();
});

test('a short job asks for no identity and writes nothing', async () => {
  const store = new MemoryStore();
  const identity = vi.fn(() => Promise.resolve({}));
  const journal = await open(store, { identity });
  journal.add(segment(0, 29), {}, RESULT);
  await journal.close();
  expect(identity).not.toHaveBeenCalled();
  expect(store.journals.size).toBe(0);
});

test('a long job is written every 30 seconds of audio and made to last every 300', async () => {
  const store = new MemoryStore();
  const journal = await open(store);
  for (let at = 0; at < 600; at += 10) journal.add(segment(at), {}, RESULT);
  await journal.close();
  expect(store.appended).toHaveLength(20);
  expect(store.appended.every(({ lines }) => lines === 3)).toBe(true);
  expect(store.appended.filter(({ sync }) => sync)).toHaveLength(2);
});

test('with any other identity nothing is found', async () => {
  const store = new MemoryStore();
  const first = await open(store, { identity: () => Promise.resolve({ build: 1 }) });
  for (const start of [0, 10, 20]) first.add(segment(start), {}, RESULT);
  await first.close();
  const second = await open(store, { identity: () => Promise.resolve({ build: 2 }) });
  expect(second.size).toBe(0);
});

test('a disk that takes no more ends the journal, is told once, and fails nothing', async () => {
  const store = new MemoryStore();
  const onProblem = vi.fn();
  const journal = await open(store, { onProblem });
  store.failWith = new Error('ENOSPC');
  for (let at = 0; at < 200; at += 10) journal.add(segment(at), {}, RESULT);
  await journal.close();
  expect(onProblem.mock.calls).toEqual([[store.failWith]]);
});

test('lines of another shape, and numbers that JSON does not have, are recognized again', async () => {
  const store = new MemoryStore();
  const first = await open(store);
  const odd = { ...RESULT, probabilities: Float32Array.of(Number.NaN) };
  for (const start of [0, 10, 20]) first.add(segment(start), {}, start === 10 ? odd : RESULT);
  await first.close();
  for (const lines of store.journals.values()) lines.push('{"version":2}', '["key"]');
  const second = await open(store);
  expect(second.size).toBe(2);
  expect(second.find(segment(10), {})).toBeUndefined();
});
