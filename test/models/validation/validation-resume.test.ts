/** Validation over time: interrupted, repeated, extended, and what kinds of models it takes. */
import { expect, test } from 'vitest';
import type { StartEnd, StartPlan } from '../../../src/core/evidence/validation-ipc.ts';
import type {
  StartOptions,
  ValidationWorker,
} from '../../../src/models/validation/start-process.ts';
import { TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { admitted, installFake, MODEL, store, validate, worker } from './validation-fixture.ts';

const built = test.skipIf(!TEST_ADDON_BUILT);

/** Starts as `inner` runs them, and which ones they were. */
class CountingWorker implements ValidationWorker {
  readonly started: string[] = [];
  readonly #inner = worker();
  readonly #onStart: (plan: StartPlan) => void;

  constructor(onStart: (plan: StartPlan) => void = () => undefined) {
    this.#onStart = onStart;
  }

  probe(...call: Parameters<ValidationWorker['probe']>) {
    return this.#inner.probe(...call);
  }

  start(plan: StartPlan, options?: StartOptions): Promise<StartEnd> {
    this.started.push(`${plan.slots}-${(plan.cold[0] ?? 0) + 1}`);
    this.#onStart(plan);
    return this.#inner.start(plan, options);
  }
}

built(
  'an interrupted validation goes on with the start that did not end',
  async () => {
    await installFake();
    const controller = new AbortController();
    const first = new CountingWorker(({ slots }) => {
      if (slots === 2) controller.abort();
    });
    const { signal } = controller;
    await expect(validate([], { worker: first, signal })).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    expect((await store().model(MODEL, 'offline')).record).toMatchObject({
      endedAt: null,
      verdicts: { model: 'PENDING' },
    });
    const second = new CountingWorker();
    const evidence = await validate([], { worker: second });
    expect(second.started).toEqual(['2-1', '2-2', '2-3']);
    expect(evidence.verdicts.model).toBe('PASS');

    const larger = new CountingWorker();
    await validate([], { worker: larger, slots: 3 });
    expect(larger.started).toEqual(['3-1', '3-2', '3-3']);

    const smaller = new CountingWorker();
    const again = await validate([], { worker: smaller, slots: 2 });
    expect(smaller.started).toEqual([]);
    expect(again.counts.map(({ slots }) => slots)).toEqual([1, 2, 3]);
  },
  60_000,
);

built(
  'a failure stays until the validation starts over',
  async () => {
    await installFake();
    expect((await validate(['cold-clone'])).verdicts.model).toBe('FAIL');
    expect((await validate([])).verdicts.model).toBe('FAIL');
    expect((await validate([], { fresh: true })).verdicts.model).toBe('PASS');
  },
  60_000,
);

built(
  'what cannot fit is blocked with figures, which is no failure',
  async () => {
    await installFake();
    const evidence = await validate([], { availableBytes: () => 10_000 });
    expect(evidence.verdicts).toMatchObject({ model: 'BLOCKED', performance: 'memory-blocked' });
    expect(evidence.counts.map(({ verdict }) => verdict)).toEqual(['PASS', 'BLOCKED']);
    expect(evidence.counts[1]?.entries[0]?.reason).toContain('2 slots needs 1 MiB at least');
  },
  60_000,
);

built(
  'a family that supports fewer slots, or no such mode, is told as unsupported',
  async () => {
    await installFake({ capacity: 1, nativeBatch: false });
    const { counts } = await validate([]);
    expect(counts.map(({ verdict }) => verdict)).toEqual(['PASS', 'UNSUPPORTED']);
    const batches = await validate([], { mode: 'batch' });
    expect(batches.verdicts.model).toBe('UNSUPPORTED');
    expect(batches.counts[0]?.entries[0]?.reason).toContain('no native batches');
  },
  60_000,
);

built(
  'native batches beside each other are validated as a mode of their own',
  async () => {
    await installFake();
    const evidence = await validate([], { mode: 'batch' });
    expect(evidence.verdicts.model).toBe('PASS');
    const sizes = evidence.counts[1]?.entries.find(({ id }) => id === 'M6')?.observed.join();
    expect(sizes).toContain('native batches of 4');
    expect(await admitted(evidence, {}, 4)).toMatchObject({ count: 2 });
    expect(await admitted(evidence, {}, 8)).toMatchObject({ count: 1 });
  },
  60_000,
);

built(
  'a stateful task is validated, too',
  async () => {
    await installFake({ architecture: 'fake-vad' });
    expect((await validate([])).verdicts.model).toBe('PASS');
  },
  60_000,
);

built(
  'streams beside each other are validated as a mode of their own',
  async () => {
    await installFake({ architecture: 'fake-vad' });
    const evidence = await validate([], { mode: 'streaming' });
    expect(evidence.verdicts.model).toBe('PASS');
    const seen = evidence.counts[1]?.entries.find(({ id }) => id === 'M6')?.observed.join();
    expect(seen).toContain('1 of 2 streams were abandoned, then 0 slots were leased');
    const leaking = await validate(['neighbor'], { mode: 'streaming', fresh: true });
    expect(leaking.verdicts.model).toBe('FAIL');
  },
  60_000,
);

built(
  'only one process validates a model in a mode',
  async () => {
    await installFake();
    let second: Promise<unknown> | undefined;
    const racing = new CountingWorker(() => {
      second ??= validate([]).catch((thrown: unknown) => thrown);
    });
    await validate([], { worker: racing, slots: 1 });
    expect(await second).toMatchObject({ code: 'OUTPUT_BUSY' });
  },
  60_000,
);
