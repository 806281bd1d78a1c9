/** Rows S1–S8, S10–S15 and S26 of the scheduler's contract. */
import { afterEach, describe, expect, test } from 'vitest';
import type { ManagementLease, RunLease } from '../../../src/runtime/slots/leases.ts';
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

describe('slots and leases', () => {
  test('S1 two requests get different slots, and the model is not free for a manager', async () => {
    const { slots } = model(2);
    const leases = await occupy(slots, 2);
    expect(leases.map((lease) => lease.slot)).toEqual([0, 1]);
    expect(slots.tryAcquire()).toBeUndefined();
    for (const lease of leases) lease.release();
  });

  test('S2 a third request on two slots times out after exactly its own bound', async () => {
    const { clock, slots } = model(2);
    const leases = await occupy(slots, 2);
    const third = watch(slots.acquireRun(request(20)));
    await clock.advance(19);
    expect(third.settled).toBe(false);
    await clock.advance(1);
    expect(third.error).toEqual(timedOut);
    expect(slots.state()).toMatchObject({ active: 2, waitingRequests: 0 });
    for (const lease of leases) lease.release();
  });

  test('S3 the slot that was freed is the one used next', async () => {
    const { slots } = model(2);
    const [first, second] = await occupy(slots, 2);
    second?.release();
    using again = await slots.acquireRun(request());
    expect(again.slot).toBe(1);
    first?.release();
  });

  test('S4 a manager waits for a busy slot and keeps everybody out while it holds the model', async () => {
    const { clock, slots } = model(2);
    const [run] = await occupy(slots, 1);
    const waiting = watch(slots.acquire(manager()));
    await turn();
    expect(waiting.settled).toBe(false);
    run?.release();
    await turn();
    expect(slots.state()).toMatchObject({ exclusive: true, active: 0 });
    expect(slots.tryAcquire()).toBeUndefined();
    const refused = watch(slots.acquireRun(request(20)));
    await clock.advance(20);
    expect(refused.error).toEqual(timedOut);
    waiting.value?.release();
  });

  test('S5 twelve callers with twenty acquisitions each never meet in a slot', async () => {
    const { slots } = model(2);
    const inside = [0, 0];
    let done = 0;
    const caller = async (): Promise<void> => {
      for (let round = 0; round < 20; round += 1) {
        using lease = await slots.acquireRun(request());
        inside[lease.slot] = (inside[lease.slot] ?? 0) + 1;
        await turn();
        expect(inside[lease.slot]).toBe(1);
        inside[lease.slot] = 0;
        done += 1;
      }
    };
    await Promise.all(Array.from({ length: 12 }, caller));
    expect(done).toBe(240);
  });

  test('S6 a holder that throws leaves its slot free', async () => {
    const { slots } = model(1);
    const fails = async (): Promise<void> => {
      using _lease = await slots.acquireRun(request());
      throw new RangeError('inference failed');
    };
    await expect(fails()).rejects.toThrow(RangeError);
    using next = await slots.acquireRun(request(1));
    expect(next.slot).toBe(0);
  });

  test('S7 slots cannot be configured while one is occupied', async () => {
    const { slots } = model(2);
    using _lease = await slots.acquireRun(request());
    expect(() => slots.configure(4)).toThrow(failure('INTERNAL', 'occupied'));
    expect(slots.state().slots).toBe(2);
  });

  test.each([0, 17, -1, 1.5, Number.NaN])(
    'a count of %s is refused and changes nothing',
    (count) => {
      const { slots } = model(3);
      expect(() => slots.configure(count)).toThrow(failure('SLOTS_UNSUPPORTED', `${count}`));
      expect(slots.state().slots).toBe(3);
    },
  );

  test('a manager may configure the slots of the model that it holds', async () => {
    const { slots } = model(1);
    const lease = await slots.acquire(manager());
    slots.configure(3);
    const waiting = occupy(slots, 3);
    lease.release();
    const leases = await waiting;
    expect(leases.map((each) => each.slot)).toEqual([0, 1, 2]);
    for (const each of leases) each.release();
  });

  test('S10 one slot never holds two callers', async () => {
    const { slots } = model(1);
    const first = await slots.acquireRun(request());
    const second = watch(slots.acquireRun(request()));
    await turn();
    expect(second.settled).toBe(false);
    first.release();
    await turn();
    expect(second.value?.slot).toBe(0);
    second.value?.release();
  });

  test('S26 a lease that was released frees nothing that a later owner holds', async () => {
    const { slots } = model(1);
    const first = await slots.acquireRun(request());
    first.release();
    const second = await slots.acquireRun(request());
    first.release();
    expect(slots.state().active).toBe(1);
    expect(() => first.slot).toThrow(failure('INTERNAL', 'released lease'));
    second.release();
    const exclusive = await slots.acquire(manager());
    expect('slot' in exclusive).toBe(false);
    exclusive.release();
    exclusive.release();
    expect(exclusive.released).toBe(true);
  });
});

describe('order', () => {
  test.each([1, 2, 4])(
    'S11 on %i slots: request, manager, then the sixteen behind it',
    async (n) => {
      const { slots } = model(n);
      const holders = await occupy(slots, n);
      const started: number[] = [];
      const enter = async (
        id: number,
        wait: Promise<RunLease | ManagementLease>,
      ): Promise<void> => {
        using _lease = await wait;
        started.push(id);
        await turn();
      };
      const all = [enter(1, slots.acquireRun(request())), enter(2, slots.acquire(manager()))];
      for (let id = 3; id <= 18; id += 1) all.push(enter(id, slots.acquireRun(request())));
      expect(slots.state()).toMatchObject({ waitingRequests: 17, waitingManagers: 1 });
      for (const holder of holders) holder.release();
      await Promise.all(all);
      expect(started).toEqual(Array.from({ length: 18 }, (_, index) => index + 1));
    },
  );

  test.each([1, 2, 4])(
    'S12 on %i slots the oldest waiter gets the one slot that is freed',
    async (n) => {
      const { slots } = model(n);
      const holders = await occupy(slots, n);
      const waiters = Array.from({ length: 17 }, () => watch(slots.acquireRun(request())));
      const freed = n - 1;
      holders[freed]?.release();
      const latecomer = watch(slots.acquireRun(request()));
      await turn();
      expect(waiters.map((waiter) => waiter.value?.slot)).toEqual([
        freed,
        ...Array.from({ length: 16 }, () => undefined),
      ]);
      expect(latecomer.settled).toBe(false);
      for (const holder of holders) holder.release();
      for (const waiter of [...waiters, latecomer]) {
        await turn();
        waiter.value?.release();
      }
    },
  );

  test('S8 requests behind a manager that times out run in the spare slot at once', async () => {
    const { clock, slots } = model(2);
    const [held] = await occupy(slots, 1);
    const managing = watch(slots.acquire(manager(150)));
    const behind = watch(slots.acquireRun(request()));
    await clock.advance(149);
    expect(behind.settled).toBe(false);
    await clock.advance(1);
    expect(managing.error).toEqual(timedOut);
    expect(behind.value?.slot).toBe(1);
    expect(slots.state()).toMatchObject({ waitingRequests: 0, waitingManagers: 0 });
    held?.release();
    behind.value?.release();
  });

  test('managers are served in the order in which they joined', async () => {
    const { slots } = model(2);
    const [held] = await occupy(slots, 1);
    const first = watch(slots.acquire(manager()));
    const second = watch(slots.acquire(manager()));
    held?.release();
    await turn();
    expect([first.settled, second.settled]).toEqual([true, false]);
    first.value?.release();
    await turn();
    second.value?.release();
    expect(second.settled).toBe(true);
  });

  test('tryAcquire never passes waiting work', async () => {
    const { slots } = model(1);
    const exclusive = slots.tryAcquire();
    const waiting = watch(slots.acquireRun(request()));
    exclusive?.release();
    expect(slots.tryAcquire()).toBeUndefined();
    await turn();
    waiting.value?.release();
    slots.tryAcquire()?.release();
  });
});

describe('reservations', () => {
  test('S13 giving up a reservation lets a blocked request run', async () => {
    const { slots } = model(2);
    const [held] = await occupy(slots, 1);
    const reservation = slots.queueManagement(manager());
    const blocked = watch(slots.acquireRun(request()));
    expect(reservation.tryAcquire()).toBeUndefined();
    await turn();
    expect(blocked.settled).toBe(false);
    reservation.cancel();
    await turn();
    expect(blocked.value?.slot).toBe(1);
    await expect(reservation.acquire()).rejects.toEqual(failure('CANCELLED', 'given up'));
    held?.release();
    blocked.value?.release();
  });

  test('S14 a ready reservation yields the model once', async () => {
    const { slots } = model(2);
    const reservation = slots.queueManagement(manager());
    const lease = reservation.tryAcquire();
    expect(slots.state().exclusive).toBe(true);
    expect(() => reservation.tryAcquire()).toThrow(failure('INTERNAL', 'twice'));
    await expect(reservation.acquire()).rejects.toEqual(failure('INTERNAL', 'twice'));
    reservation.cancel();
    expect(slots.state().exclusive).toBe(true);
    lease?.release();
    expect(slots.state().exclusive).toBe(false);
  });

  test('a granted reservation that is dropped unused frees the model and yields nothing', async () => {
    const { slots } = model(1);
    const reservation = slots.queueManagement(manager());
    const blocked = watch(slots.acquireRun(request()));
    reservation[Symbol.dispose]();
    await turn();
    expect(blocked.value?.slot).toBe(0);
    expect(reservation.tryAcquire()).toBeUndefined();
    await expect(reservation.acquire()).rejects.toEqual(failure('CANCELLED', 'given up'));
    blocked.value?.release();
  });

  test('a reservation that found nothing yet can still be waited for', async () => {
    const { slots } = model(1);
    const [held] = await occupy(slots, 1);
    const reservation = slots.queueManagement(manager());
    expect(reservation.tryAcquire()).toBeUndefined();
    const waiting = reservation.acquire();
    held?.release();
    (await waiting).release();
  });

  test('S15 an expired reservation is dropped by dispatch and never granted', async () => {
    const { clock, slots } = model(1);
    const exclusive = await slots.acquire(manager());
    const expiring = slots.queueManagement(manager(10));
    const next = slots.queueManagement(manager());
    await clock.advance(10);
    expect(slots.state().waitingManagers).toBe(1);
    exclusive.release();
    expect(expiring.tryAcquire()).toBeUndefined();
    await expect(expiring.acquire()).rejects.toEqual(timedOut);
    next.tryAcquire()?.release();
  });
});

describe('cancellation', () => {
  test('a signal takes a waiter out at once, and who is behind proceeds', async () => {
    const { slots } = model(2);
    const [held] = await occupy(slots, 1);
    const cancel = new AbortController();
    const managing = watch(slots.acquire(manager(0, cancel.signal)));
    const behind = watch(slots.acquireRun(request()));
    cancel.abort(new Error('the client has gone'));
    expect(slots.state()).toMatchObject({ active: 2, waitingManagers: 0, waitingRequests: 0 });
    await turn();
    expect(managing.error).toEqual(failure('CANCELLED', 'the client has gone'));
    expect(behind.value?.slot).toBe(1);
    held?.release();
    behind.value?.release();
  });

  test('a signal that was aborted before never joins', async () => {
    const { slots } = model(1);
    const signal = AbortSignal.abort('stop');
    await expect(slots.acquireRun(request(0, signal))).rejects.toEqual(
      failure('CANCELLED', 'stop'),
    );
    await expect(slots.acquire(manager(0, signal))).rejects.toEqual(failure('CANCELLED', 'stop'));
    expect(slots.state().active).toBe(0);
  });

  test('a grant wins over an abort of the same turn', async () => {
    const { slots } = model(1);
    const [held] = await occupy(slots, 1);
    const cancel = new AbortController();
    const waiting = watch(slots.acquireRun(request(0, cancel.signal)));
    held?.release();
    cancel.abort();
    await turn();
    expect(waiting.value?.slot).toBe(0);
    waiting.value?.release();
  });
});
