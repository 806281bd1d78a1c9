/** Rows S9, S16–S18 and S21–S25 of the scheduler's contract; S19 and S20 are in waiting.test.ts. */
import { afterEach, describe, expect, test } from 'vitest';
import { turn } from '../manual-clock.ts';
import {
  expectNothingHeld,
  failure,
  manager,
  model,
  occupy,
  request,
  timedOut,
  watch,
} from './slots-fixture.ts';

afterEach(expectNothingHeld);

const overdue = (words: string) => failure('BUSY_OVERDUE', words);

describe('overdue work', () => {
  test('S9 one stuck slot does not keep a newcomer from the free one', async () => {
    const { clock, slots } = model(2);
    const [stuck] = await occupy(slots, 1);
    await clock.advance(25);
    using lease = await slots.acquireRun(request(10));
    expect(lease.slot).toBe(1);
    stuck?.release();
  });

  test.each([
    [1, 1, 1],
    [2, 2, 1],
    [4, 4, 1],
    [2, 1, 1],
    [4, 2, 1],
    [2, 2, 2],
  ])(
    'S16 %i slots, %i overdue, %i waiting managers: busy at once',
    async (n, occupied, managers) => {
      const { clock, slots } = model(n);
      const held = await occupy(slots, occupied);
      const waiting = Array.from({ length: managers }, () => watch(slots.acquire(manager())));
      await clock.advance(30);
      const before = slots.state();
      const newcomer = watch(slots.acquireRun(request(15)));
      await turn();
      expect(newcomer.error).toEqual(overdue('all active slots are overdue'));
      expect(slots.state()).toEqual(before);
      expect(before).toMatchObject({ active: occupied, waitingManagers: managers });
      for (const lease of held) lease.release();
      for (const managing of waiting) {
        await turn();
        expect(managing.settled).toBe(true);
        managing.value?.release();
      }
    },
  );

  test('S17 with one healthy slot the newcomer queues and runs after the manager', async () => {
    const { clock, slots } = model(2);
    const [overdueRun] = await occupy(slots, 1);
    await clock.advance(250);
    const [healthy] = await occupy(slots, 1);
    const managing = watch(slots.acquire(manager()));
    const newcomer = watch(slots.acquireRun(request(200)));
    await clock.advance(100);
    expect(slots.state()).toMatchObject({ waitingRequests: 1, waitingManagers: 1 });
    overdueRun?.release();
    healthy?.release();
    await turn();
    expect([managing.settled, newcomer.settled]).toEqual([true, false]);
    managing.value?.release();
    await turn();
    expect(newcomer.value?.slot).toBe(0);
    newcomer.value?.release();
  });

  test('S18 without a bound the newcomer queues although all slots are overdue', async () => {
    const { clock, slots } = model(2);
    const held = await occupy(slots, 2);
    const managing = watch(slots.acquire(manager()));
    await clock.advance(1_000_000);
    const newcomer = watch(slots.acquireRun(request(0)));
    for (const lease of held) lease.release();
    await turn();
    managing.value?.release();
    await turn();
    expect(newcomer.value?.slot).toBe(0);
    newcomer.value?.release();
  });

  test('S21 without a bound everybody waits for a wedged holder and enters after it', async () => {
    const { clock, slots } = model(1);
    const [wedged] = await occupy(slots, 1);
    await clock.advance(3_600_000);
    const waiters = Array.from({ length: 9 }, () => watch(slots.acquireRun(request(0))));
    await clock.advance(3_600_000);
    expect(waiters.some((waiter) => waiter.settled)).toBe(false);
    wedged?.release();
    for (const waiter of waiters) {
      await turn();
      expect(waiter.value?.slot).toBe(0);
      waiter.value?.release();
    }
  });

  test('S22 with a bound nobody stays parked behind a wedged holder', async () => {
    const { clock, slots } = model(1);
    const [wedged] = await occupy(slots, 1);
    const waiters = Array.from({ length: 8 }, () => watch(slots.acquireRun(request(50))));
    await clock.advance(50);
    expect(waiters.map((waiter) => waiter.error)).toEqual(waiters.map(() => timedOut));
    expect(slots.state().waitingRequests).toBe(0);
    wedged?.release();
  });

  test('S23 a holder past the bound refuses the newcomer in the same turn', async () => {
    const { clock, slots } = model(1);
    const [held] = await occupy(slots, 1);
    await clock.advance(51);
    const newcomer = watch(slots.acquireRun(request(50)));
    await turn();
    expect(newcomer.error).toEqual(overdue('all active slots are overdue'));
    held?.release();
  });

  test('S24 a run longer than the bound leaves no stale timestamp behind', async () => {
    const { clock, slots } = model(1);
    const [held] = await occupy(slots, 1);
    await clock.advance(500);
    held?.release();
    await clock.advance(500);
    using next = await slots.acquireRun(request(50));
    const behind = watch(slots.acquireRun(request(50)));
    await turn();
    expect(behind.settled).toBe(false);
    await clock.advance(50);
    expect(behind.error).toEqual(timedOut);
    expect(next.slot).toBe(0);
  });

  test.each([0, 1, 300_000])(
    'S25 an idle model is entered at once with a bound of %i',
    async (t) => {
      const { clock, slots } = model(1);
      await clock.advance(1_000_000);
      const entering = watch(slots.acquireRun(request(t)));
      await turn();
      expect(entering.value?.slot).toBe(0);
      entering.value?.release();
    },
  );

  test('an overdue exclusive operation refuses requests and managers, each by name', async () => {
    const { clock, slots } = model(2);
    using _exclusive = await slots.acquire(manager());
    await clock.advance(21);
    const reason = overdue('an exclusive operation is overdue');
    await expect(slots.acquireRun(request(20))).rejects.toEqual(reason);
    expect(() => slots.queueManagement(manager(20))).toThrow(reason);
  });

  test('a healthy exclusive operation is waited for', async () => {
    const { clock, slots } = model(2);
    const exclusive = await slots.acquire(manager());
    await clock.advance(20);
    const waiting = watch(slots.acquireRun(request(20)));
    await clock.advance(19);
    exclusive.release();
    await turn();
    waiting.value?.release();
    expect(waiting.error).toBeUndefined();
  });

  test('one overdue slot refuses a manager, though another is healthy or free', async () => {
    const { clock, slots } = model(2);
    using _stuck = await slots.acquireRun(request());
    await clock.advance(21);
    await expect(slots.acquire(manager(20))).rejects.toEqual(overdue('an active slot is overdue'));
  });
});
