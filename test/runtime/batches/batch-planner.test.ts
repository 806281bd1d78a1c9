import { describe, expect, test } from 'vitest';
import {
  type BatchPlan,
  type Candidate,
  dueBatches,
  planBatch,
  type Turn,
} from '../../../src/runtime/batches/batch-planner.ts';

interface Named extends Candidate {
  readonly name: string;
}

/** A candidate of job `A` is named A1, A2 …; jobs are as old as their letter. */
function candidate(name: string, overrides: Partial<Candidate> = {}): Named {
  return {
    name,
    jobId: name.charAt(0),
    jobSequence: name.charCodeAt(0),
    priority: 0,
    seconds: 5,
    jobRemainingSeconds: 100,
    key: 'asr',
    arrivedAtMs: Number(name.slice(1)),
    alone: false,
    ...overrides,
  };
}

const names = (items: readonly Named[]) => items.map((item) => item.name).join(' ');
const series = (job: string, count: number, overrides: Partial<Candidate> = {}) =>
  Array.from({ length: count }, (_, index) => candidate(`${job}${index + 1}`, overrides));

describe('one batch', () => {
  const limits = { maxItems: 4, maxAudioSeconds: 60 };
  const table: [string, Named[], { maxItems: number; maxAudioSeconds: number }, Turn, string][] = [
    ['nothing from nothing', [], limits, 'oldest', ''],
    [
      'the oldest job, then the one with the least left, in turn',
      [
        ...series('A', 3, { jobRemainingSeconds: 900 }),
        ...series('B', 3, { jobRemainingSeconds: 500 }),
        ...series('C', 3, { jobRemainingSeconds: 10 }),
      ],
      limits,
      'oldest',
      'A1 C1 A2 C2',
    ],
    [
      'the other turn first when it is due',
      [
        ...series('A', 3, { jobRemainingSeconds: 900 }),
        ...series('C', 3, { jobRemainingSeconds: 10 }),
      ],
      limits,
      'least-left',
      'C1 A1 C2 A2',
    ],
    [
      'the next jobs when those two have no more',
      [
        candidate('A1', { jobRemainingSeconds: 900 }),
        candidate('B1', { jobRemainingSeconds: 500 }),
        candidate('C1', { jobRemainingSeconds: 10 }),
        candidate('D1', { jobRemainingSeconds: 600 }),
      ],
      limits,
      'oldest',
      'A1 C1 B1 D1',
    ],
    [
      'segments of a job in the order of their arrival',
      [candidate('A3'), candidate('A1'), candidate('A2')],
      limits,
      'oldest',
      'A1 A2 A3',
    ],
    [
      'the lower number of priority before everything else',
      [candidate('A1', { priority: 5 }), candidate('B1', { priority: 1 })],
      limits,
      'oldest',
      'B1 A1',
    ],
    [
      'room that is left goes to a lower priority only if it does not lengthen the batch',
      [
        candidate('A1', { priority: 5, seconds: 8 }),
        candidate('B1', { priority: 1, seconds: 5 }),
        candidate('C1', { priority: 5, seconds: 4 }),
      ],
      limits,
      'oldest',
      'B1 C1',
    ],
    [
      'a clearly different length of high priority before a similar one of low priority',
      [
        candidate('A1', { priority: 1 }),
        candidate('A2', { priority: 1, seconds: 20 }),
        candidate('B1', { priority: 5 }),
      ],
      { maxItems: 2, maxAudioSeconds: 60 },
      'oldest',
      'A1 A2',
    ],
    [
      'only the key of the anchor',
      [candidate('A1', { key: 'x' }), candidate('A2', { key: 'y' }), candidate('B1', { key: 'x' })],
      limits,
      'oldest',
      'A1 B1',
    ],
    [
      'similar lengths when there are more than fit',
      [
        candidate('A1', { seconds: 5 }),
        candidate('A2', { seconds: 20 }),
        candidate('A3', { seconds: 5.5 }),
        candidate('A4', { seconds: 1 }),
        candidate('A5', { seconds: 4.5 }),
      ],
      { maxItems: 3, maxAudioSeconds: 60 },
      'oldest',
      'A1 A3 A5',
    ],
    [
      'any lengths when they all fit',
      [candidate('A1', { seconds: 5 }), candidate('A2', { seconds: 20 })],
      limits,
      'oldest',
      'A1 A2',
    ],
    [
      'length decides only near the front: nothing far behind is fetched for it',
      [
        candidate('A1', { seconds: 5 }),
        ...['A2', 'A3', 'A4', 'A5'].map((name) => candidate(name, { seconds: 20 })),
        candidate('A6', { seconds: 5 }),
      ],
      { maxItems: 2, maxAudioSeconds: 60 },
      'oldest',
      'A1 A2',
    ],
    [
      'audio within the budget, passing over what does not fit',
      [
        candidate('A1', { seconds: 10 }),
        candidate('A2', { seconds: 12 }),
        candidate('A3', { seconds: 9 }),
      ],
      { maxItems: 4, maxAudioSeconds: 20 },
      'oldest',
      'A1 A3',
    ],
    [
      'at least one item, however long',
      [candidate('A1', { seconds: 90 }), candidate('A2')],
      limits,
      'oldest',
      'A1',
    ],
    [
      'an item that runs alone by itself',
      [candidate('A1', { alone: true }), candidate('A2')],
      limits,
      'oldest',
      'A1',
    ],
    [
      'nothing that runs alone as a companion',
      [candidate('A1'), candidate('A2', { alone: true }), candidate('A3')],
      limits,
      'oldest',
      'A1 A3',
    ],
  ];

  test.each(table)('takes %s', (_, candidates, within, firstTurn, expected) => {
    expect(names(planBatch(candidates, within, firstTurn).batch)).toBe(expected);
  });

  test('does not depend on the order of the candidates between jobs', () => {
    const items = [...series('A', 2), ...series('B', 2), ...series('C', 2)];
    const reversed = items.toReversed();
    expect(names(planBatch(reversed, limits).batch)).toBe(names(planBatch(items, limits).batch));
  });
});

test('every segment of a long old job runs although short jobs keep coming', () => {
  const limits = { maxItems: 2, maxAudioSeconds: 60 };
  let waiting: Named[] = series('A', 6, { seconds: 20, jobRemainingSeconds: 120 });
  let next: Turn = 'oldest';
  let batches = 0;
  const left = () => waiting.some((item) => item.jobId === 'A');
  while (left() && batches < 100) {
    waiting.push(...series('Z', 2, { jobRemainingSeconds: 4, seconds: 2 }));
    const plan: BatchPlan<Named> = planBatch(waiting, limits, next);
    waiting = waiting.filter((item) => !plan.batch.includes(item));
    next = plan.nextTurn;
    batches += 1;
  }
  expect(batches).toBeLessThanOrEqual(12);
});

test('with batches of one, the oldest job and the one with the least left alternate', () => {
  const old = series('A', 2, { jobRemainingSeconds: 900 });
  const short = series('B', 2, { jobRemainingSeconds: 5 });
  let waiting: Named[] = [...old, ...short];
  let next: Turn = 'oldest';
  const order: string[] = [];
  while (waiting.length > 0) {
    const plan: BatchPlan<Named> = planBatch(waiting, { maxItems: 1, maxAudioSeconds: 60 }, next);
    order.push(names(plan.batch));
    waiting = waiting.filter((item) => !plan.batch.includes(item));
    next = plan.nextTurn;
  }
  expect(order).toEqual(['A1', 'B1', 'A2', 'B2']);
});

describe('the wait rule', () => {
  const limits = { maxItems: 4, maxAudioSeconds: 30, maxWaitMs: 20 };
  const arrived = (count: number, arrivedAtMs: number, overrides: Partial<Candidate> = {}) =>
    series('A', count, { ...overrides, arrivedAtMs });

  const table: [string, Named[], number, boolean, number, number, number | undefined][] = [
    ['nothing is due of nothing', [], 0, false, 0, 0, undefined],
    ['all is due when nothing else is coming', arrived(5, 100), 100, false, 2, 5, undefined],
    ['a part of a batch waits while more is coming', arrived(3, 100), 119, true, 0, 0, 120],
    ['it is due once the oldest has waited', arrived(3, 100), 120, true, 1, 3, undefined],
    ['a full batch is due at once, the rest waits', arrived(5, 100), 100, true, 1, 5, 120],
    ['audio fills a batch too', arrived(2, 100, { seconds: 15 }), 100, true, 1, 2, 120],
    [
      'a segment over the budget is one batch',
      arrived(1, 100, { seconds: 95 }),
      100,
      true,
      1,
      1,
      120,
    ],
    [
      'a segment that runs alone never waits',
      arrived(2, 100, { alone: true }),
      100,
      true,
      2,
      2,
      undefined,
    ],
    [
      'each key waits for itself',
      [...arrived(4, 100), ...arrived(1, 105, { key: 'other' })],
      110,
      true,
      1,
      4,
      120,
    ],
  ];

  test.each(table)('%s', (_, waiting, nowMs, expectMore, count, candidates, nextAtMs) => {
    const due = dueBatches(waiting, limits, nowMs, expectMore);
    expect([due.count, due.candidates.length, due.nextAtMs]).toEqual([count, candidates, nextAtMs]);
  });
});
