import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ModelStatus } from '../../src/core/worker/status.ts';
import { NativeEngine } from '../../src/engine/native-engine.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { writeWav } from '../engine/fake-model.ts';
import { TEST_ADDON, TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { FakeWorker } from '../support/fake-worker.ts';
import { HeldEngine } from '../support/held-engine.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../support/http.ts';
import { readSse, type SseReader } from '../support/sse.ts';

/** Whole windows of the fake detector, all of them speech. */
const SECONDS = 1.024;
/** Longer than any test may take: what ends in a test ended without them. */
const NEVER_MS = 3_600_000;

let server: TestServer;
let queue: AudioQueue;
beforeEach(async () => {
  server = await startTestServer({ settings: { shutdownMs: NEVER_MS } });
  queue = await AudioQueue.open({ address: server.redis.address, model: TEST_MODEL });
});
afterEach(async () => {
  await queue.close();
  await server[Symbol.asyncDispose]();
});

function recording(seed: number): string {
  return writeWav(join(server.redis.dataDir, `${seed}.wav`), SECONDS, seed);
}

/** Clients that wait for something, all of which may leave. */
class Clients {
  readonly #followers: SseReader[] = [];
  readonly #gone = new AbortController();
  readonly jobs: string[] = [];

  /** Adds jobs that outlive their clients, each with a client that follows it. */
  async follow(seeds: readonly number[]): Promise<void> {
    for (const seed of seeds) {
      const input = { kind: 'path', path: recording(seed) } as const;
      const id = await queue.add({ input });
      this.jobs.push(id);
      const follower = await readSse(`${server.url}/v1/jobs/${id}/events`);
      await follower.next();
      this.#followers.push(follower);
    }
  }

  /** A client whose request is the job: without it there is nothing to do. */
  async transcribe(seed: number): Promise<void> {
    const form = new FormData();
    form.append('file', new Blob([await readFile(recording(seed))]), `${seed}.wav`);
    const init = { method: 'POST', body: form, signal: this.#gone.signal };
    server.request('/v1/audio/transcriptions', init).catch(() => undefined);
  }

  /** Asks for something of the model, and does not stay for the answer. */
  control(operation: 'unload' | 'reconfigure', body: object): void {
    const path = `/v1/models/${TEST_MODEL}/${operation}`;
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: this.#gone.signal,
    };
    server.request(path, init).catch(() => undefined);
  }

  leave(): void {
    for (const follower of this.#followers) follower.close();
    this.#gone.abort();
  }
}

interface Phase {
  readonly phase: string;
  readonly lazy: boolean;
  /** Brings the worker there, with three jobs that it has taken. */
  readonly enter: (clients: Clients, engine: HeldEngine) => Promise<void>;
  readonly entered: (model: ModelStatus) => boolean;
  /** Told already, though sessions are still being ended. */
  readonly loaded: boolean;
  /** Pools whose sessions ended, by the end. */
  readonly pools: number;
}

const PHASES: readonly Phase[] = [
  {
    phase: 'loading',
    lazy: true,
    enter: async (clients, { loads }) => {
      loads.close();
      await clients.follow([1, 2, 3]);
    },
    entered: (model) =>
      model.state === 'loading' && model.activeSlots === 2 && model.queuedRequests === 1,
    loaded: false,
    pools: 1,
  },
  {
    phase: 'running',
    lazy: false,
    enter: async (clients, { runs }) => {
      runs.close();
      await clients.follow([1, 2, 3]);
    },
    entered: ({ activeSlots, queuedRequests }) => activeSlots === 2 && queuedRequests === 1,
    loaded: true,
    pools: 1,
  },
  {
    phase: 'reconfiguring',
    lazy: false,
    enter: async (clients, { closes }) => {
      closes.close();
      clients.control('reconfigure', { settings: { slots: 1 } });
      await expect.poll(() => worker.latest?.runtime.models[1]?.state).toBe('reconfiguring');
      await clients.follow([1, 2, 3]);
    },
    entered: ({ state, queuedRequests }) => state === 'reconfiguring' && queuedRequests === 3,
    loaded: false,
    pools: 2,
  },
  {
    phase: 'unloading',
    lazy: false,
    enter: async (clients, { closes }) => {
      closes.close();
      clients.control('unload', {});
      await expect.poll(() => worker.latest?.runtime.models[1]?.state).toBe('unloading');
      await clients.follow([1, 2, 3]);
    },
    entered: ({ state, queuedRequests }) => state === 'unloading' && queuedRequests === 3,
    loaded: false,
    pools: 2,
  },
];

let worker: FakeWorker;

describe.skipIf(!TEST_ADDON_BUILT)(
  'clients go and the service is stopped',
  { timeout: 30_000 },
  () => {
    test.each(PHASES)(
      'while a model is $phase: nothing that was accepted is lost',
      async (phase) => {
        const engine = new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
        worker = await FakeWorker.start({
          address: server.redis.address,
          folder: server.redis.dataDir,
          models: { [TEST_MODEL]: {} },
          slots: 2,
          batch: 1,
          settings: { lazy: phase.lazy, unvalidatedSlots: 2 },
          engine,
        });
        await using _ = worker;
        const clients = new Clients();
        await phase.enter(clients, engine);
        await worker.model(TEST_MODEL, phase.entered);

        clients.leave();
        await server.close();
        let isClosed = false;
        const closed = worker.worker.close({ deadlineMs: NEVER_MS }).then(() => {
          isClosed = true;
        });
        // Whatever could end without the release has had its turn when Redis has answered.
        await queue.counts();
        expect(isClosed).toBe(false);
        expect(await worker.model(TEST_MODEL, () => true)).toMatchObject({ loaded: phase.loaded });

        engine.openGates();
        await closed;
        const ends = await Promise.all(clients.jobs.map((id) => queue.get(id)));
        expect(ends.map((job) => job?.state)).toEqual(['completed', 'completed', 'completed']);
        expect(engine.texts).toHaveLength(3);
        expect(engine.trace).toEqual(
          Array.from({ length: phase.pools }, () => ['sessions', 'weights']).flat(),
        );
        expect(worker.latest).toMatchObject({
          heldJobs: 0,
          runtime: {
            models: [
              { id: 'fake-vad' },
              {
                id: TEST_MODEL,
                state: 'unloaded',
                loaded: false,
                leaving: 0,
                activeSlots: 0,
                exclusive: false,
                queuedRequests: 0,
                waitingManagers: 0,
              },
            ],
          },
        });
        expect(await queue.counts()).toMatchObject({ waiting: 0, running: 0 });
      },
    );

    test('a request that is its job is cancelled with its client; a command that waits is withdrawn', async () => {
      const engine = new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
      worker = await FakeWorker.start({
        address: server.redis.address,
        folder: server.redis.dataDir,
        models: { [TEST_MODEL]: {} },
        batch: 2,
        engine,
      });
      await using _ = worker;
      const clients = new Clients();
      engine.runs.close();
      await clients.follow([1]);
      await worker.model(TEST_MODEL, ({ activeSlots }) => activeSlots === 1);
      clients.control('unload', {});
      await worker.model(TEST_MODEL, ({ waitingManagers }) => waitingManagers === 1);
      await clients.transcribe(2);
      await worker.model(TEST_MODEL, ({ queuedRequests }) => queuedRequests === 1);

      clients.leave();
      await worker.model(
        TEST_MODEL,
        ({ queuedRequests, waitingManagers }) => queuedRequests + waitingManagers === 0,
      );
      await server.close();
      const closed = worker.worker.close({ deadlineMs: NEVER_MS });
      engine.openGates();
      await closed;
      expect(await queue.list({ states: ['completed', 'cancelled'], limit: 5 })).toHaveLength(2);
      expect(engine.texts).toHaveLength(1);
    });

    test('past its deadline a worker gives what waits back to Redis, untouched', async () => {
      const engine = new HeldEngine(new NativeEngine({ addon: TEST_ADDON }));
      worker = await FakeWorker.start({
        address: server.redis.address,
        folder: server.redis.dataDir,
        models: { [TEST_MODEL]: {} },
        batch: 1,
        engine,
      });
      await using _ = worker;
      const clients = new Clients();
      engine.runs.close();
      await clients.follow([1]);
      await worker.model(TEST_MODEL, ({ activeSlots }) => activeSlots === 1);
      await clients.follow([2]);
      await worker.model(TEST_MODEL, ({ queuedRequests }) => queuedRequests === 1);
      clients.leave();
      const closed = worker.worker.close({ deadlineMs: 0 });
      await worker.model(TEST_MODEL, ({ queuedRequests }) => queuedRequests === 0);
      engine.openGates();
      await closed;
      const [, second = ''] = clients.jobs;
      expect(await queue.get(second)).toMatchObject({ state: 'waiting', attemptsMade: 0 });
    });
  },
);
