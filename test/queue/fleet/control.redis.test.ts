import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { ControlCommand, ControlResult } from '../../../src/core/worker/control.ts';
import type { WorkerPresence } from '../../../src/core/worker/status.ts';
import { FleetControl, sweepControlQueues } from '../../../src/queue/fleet/control.ts';
import { PresencePublisher } from '../../../src/queue/fleet/presence.ts';
import { controlQueueOf, controlQueuesKey } from '../../../src/queue/redis/queue-names.ts';
import { loadedResult, startControlledWorker } from '../../support/controlled-worker.ts';
import { modelStatusOf, presenceOf } from '../../support/presence.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';

let redis: TestRedis;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(async () => {
  await redis[Symbol.asyncDispose]();
});

async function openControl(): Promise<FleetControl> {
  const { address } = redis;
  return new FleetControl({ address, connection: await redis.connection(), lookIntervalMs: 20 });
}

function serving(...models: string[]): Partial<WorkerPresence> {
  const runtime = { build: 'test', models: models.map((id) => modelStatusOf(id)) };
  return { models: models.map((id) => ({ id, slots: 1, batch: 8 })), runtime };
}

/** Commands that a worker has begun, each to be ended by the test. */
class Begun {
  readonly commands: ControlCommand[] = [];
  readonly signals: AbortSignal[] = [];
  readonly #ends: ((result: ControlResult | Error) => void)[] = [];
  readonly #arrivals: (() => void)[] = [];

  readonly run = (command: ControlCommand, signal: AbortSignal): Promise<ControlResult> => {
    this.commands.push(command);
    this.signals.push(signal);
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(reasonOf(signal)));
      this.#ends.push((end) => (end instanceof Error ? reject(end) : resolve(end)));
      for (const arrived of this.#arrivals.splice(0)) arrived();
    });
  };

  async count(count: number): Promise<void> {
    while (this.commands.length < count) {
      await new Promise<void>((resolve) => this.#arrivals.push(resolve));
    }
  }

  end(at: number, result: ControlResult | Error): void {
    this.#ends[at]?.(result);
  }
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) resolve();
    else signal?.addEventListener('abort', () => resolve());
  });
}

async function keysOf(worker: string): Promise<string[]> {
  const connection = await redis.connection();
  return connection.keys(`*${controlQueueOf(worker)}*`);
}

test('every worker that has the model gets the command and answers for itself', async () => {
  const control = await openControl();
  const { address } = redis;
  await using first = await startControlledWorker({
    address,
    presence: { ...serving('a', 'b'), startedAt: 1 },
    run: () => Promise.resolve(loadedResult('a', 3)),
  });
  await using second = await startControlledWorker({
    address,
    presence: { ...serving('a'), startedAt: 2 },
    run: () => Promise.reject(new WavepoolError('INSUFFICIENT_MEMORY', '3 MiB are missing')),
  });
  await using _other = await startControlledWorker({
    address,
    presence: serving('c'),
    run: () => Promise.reject(new Error('it was not meant')),
  });

  const outcomes = await control.send({ operation: 'load', model: 'a' });

  const { id: worker, host, pid } = first.presence;
  expect(outcomes).toEqual([
    { ok: true, worker, host, pid, ...loadedResult('a', 3) },
    {
      ok: false,
      worker: second.presence.id,
      host,
      pid,
      error: { code: 'INSUFFICIENT_MEMORY', message: 'not enough memory: 3 MiB are missing' },
    },
  ]);
});

test('one worker may be named, and all may be; a model that none has is loaded by all', async () => {
  const control = await openControl();
  const asked: string[] = [];
  const start = (name: string) =>
    startControlledWorker({
      address: redis.address,
      presence: { ...serving('a'), startedAt: asked.length },
      run: () => {
        asked.push(name);
        return Promise.resolve(loadedResult('a'));
      },
    });
  await using one = await start('one');
  await using _two = await start('two');
  const heard = async (send: Promise<unknown>): Promise<string[]> => {
    await send;
    return asked.splice(0).toSorted();
  };

  const named = { workers: [one.presence.id] };
  expect(await heard(control.send({ operation: 'unload', model: 'a' }, named))).toEqual(['one']);
  expect(await heard(control.send({ operation: 'load', model: 'new' }))).toEqual(['one', 'two']);
  const all = { workers: 'all' } as const;
  expect(await heard(control.send({ operation: 'unload', model: 'x' }, all))).toEqual([
    'one',
    'two',
  ]);
  expect(await heard(control.send({ operation: 'unload-many', models: ['x'] }))).toEqual([
    'one',
    'two',
  ]);
});

test('what cannot be done is refused before any worker hears of it', async () => {
  const control = await openControl();
  await expect(control.send({ operation: 'unload-many', models: 'all' })).rejects.toMatchObject({
    code: 'NO_WORKER',
  });
  const heard: ControlCommand[] = [];
  await using worker = await startControlledWorker({
    address: redis.address,
    presence: serving('a'),
    run: (command) => {
      heard.push(command);
      return Promise.resolve(loadedResult('a'));
    },
  });
  await expect(control.send({ operation: 'unload', model: 'b' })).rejects.toMatchObject({
    code: 'MODEL_UNKNOWN',
  });
  const settings = { slots: 17 };
  await expect(
    control.send({ operation: 'reconfigure', model: 'a', settings }),
  ).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  const workers = [worker.presence.id, randomUUID()];
  await expect(
    control.send({ operation: 'unload', model: 'a' }, { workers }),
  ).rejects.toMatchObject({ code: 'NO_WORKER' });
  expect(heard).toEqual([]);
});

test('commands reach their worker in the order in which they were sent, though none has ended', async () => {
  const control = await openControl();
  const begun = new Begun();
  await using worker = await startControlledWorker({
    address: redis.address,
    presence: serving('a'),
    run: begun.run,
  });
  const sent = Array.from({ length: 24 }, (_, at) => at);
  const sending: Promise<unknown>[] = [];
  for (const at of sent) {
    sending.push(
      control.send({ operation: 'reconfigure', model: 'a', settings: { busyTimeoutMs: at } }),
    );
    await begun.count(at < 4 ? at + 1 : 0);
  }
  await begun.count(sent.length);

  // The last ones raced on connections of their own: what counts is the order in the worker's queue.
  const connection = await redis.connection();
  const entries = await connection.xrange(
    `wavepool:${controlQueueOf(worker.presence.id)}:events`,
    '-',
    '+',
  );
  const added = entries.flatMap(([, [, name, , id]]) => (name === 'added' ? [id] : []));
  const queued = await Promise.all(
    added.map(async (id) => {
      const data = await connection.hget(
        `wavepool:${controlQueueOf(worker.presence.id)}:${id}`,
        'data',
      );
      return JSON.parse(data ?? '').command.settings.busyTimeoutMs;
    }),
  );
  const run = begun.commands.map((command) =>
    command.operation === 'reconfigure' ? command.settings.busyTimeoutMs : undefined,
  );
  expect(run).toEqual(queued);
  expect(run.slice(0, 4)).toEqual([0, 1, 2, 3]);
  expect(run.toSorted((a = 0, b = 0) => a - b)).toEqual(sent);
  for (const at of sent.toReversed()) begun.end(at, loadedResult('a'));
  await Promise.all(sending);
});

test('a worker that vanishes is told as gone, and what it was sent is removed', async () => {
  const control = await openControl();
  const publisher = new PresencePublisher({
    address: redis.address,
    snapshot: () => presence,
    heartbeatMs: 50,
  });
  const presence = presenceOf(serving('a'));
  await publisher.start();
  const sending = control.send({ operation: 'load', model: 'a' });
  const connection = await redis.connection();
  await expect
    .poll(() => connection.zscore(controlQueuesKey(connection), presence.id))
    .not.toBeNull();
  await publisher.close();

  expect(await sending).toMatchObject([{ ok: false, error: { code: 'WORKER_GONE' } }]);
  expect(await keysOf(presence.id)).toEqual([]);

  // A process with this id would find nothing to do.
  const heard: ControlCommand[] = [];
  await using _late = await startControlledWorker({
    address: redis.address,
    presence,
    run: (command) => {
      heard.push(command);
      return Promise.resolve(loadedResult('b'));
    },
  });
  await control.send({ operation: 'load', model: 'b' });
  expect(heard).toEqual([{ operation: 'load', model: 'b', settings: {} }]);
});

test('a worker that answers too late is told as such, and stops waiting with the command', async () => {
  const control = await openControl();
  const begun = new Begun();
  await using _worker = await startControlledWorker({
    address: redis.address,
    presence: serving('a'),
    run: begun.run,
  });
  const outcomes = await control.send({ operation: 'unload', model: 'a' }, { timeoutMs: 50 });
  expect(outcomes).toMatchObject([{ ok: false, error: { code: 'CONTROL_TIMEOUT' } }]);
  await begun.count(1);
  await aborted(begun.signals[0]);
  expect(begun.signals[0]?.reason).toMatchObject({ code: 'CANCELLED' });
});

test('a command that no worker has taken up is withdrawn with its sender, and never runs', async () => {
  const control = await openControl();
  const presence = presenceOf(serving('a'));
  await using publisher = new PresencePublisher({
    address: redis.address,
    snapshot: () => presence,
  });
  await publisher.start();
  const leave = new AbortController();
  const sending = control.send({ operation: 'unload', model: 'a' }, { signal: leave.signal });
  const connection = await redis.connection();
  await expect
    .poll(() => connection.zscore(controlQueuesKey(connection), presence.id))
    .not.toBeNull();
  leave.abort(new Error('the sender has gone'));
  await expect(sending).rejects.toThrow('the sender has gone');

  const heard: ControlCommand[] = [];
  await using _late = await startControlledWorker({
    address: redis.address,
    presence,
    run: (command) => {
      heard.push(command);
      return Promise.resolve(loadedResult('a'));
    },
  });
  await control.send({ operation: 'load', model: 'a' });
  expect(heard.map(({ operation }) => operation)).toEqual(['load']);
});

test('a worker that ends lets go of the commands that wait, and says why', async () => {
  const control = await openControl();
  const begun = new Begun();
  const worker = await startControlledWorker({
    address: redis.address,
    presence: serving('a'),
    run: begun.run,
  });
  const sending = control.send({ operation: 'unload', model: 'a' });
  await begun.count(1);
  await worker[Symbol.asyncDispose]();
  const [outcome] = await sending;
  expect(outcome).toMatchObject({ ok: false });
  if (outcome?.ok === false) expect(['SHUTTING_DOWN', 'WORKER_GONE']).toContain(outcome.error.code);
});

test('what was sent to dead workers is swept, what was sent to live ones is not', async () => {
  const control = await openControl();
  const connection = await redis.connection();
  await using alive = await startControlledWorker({
    address: redis.address,
    presence: serving('a'),
    run: () => Promise.resolve(loadedResult('a')),
  });
  const dead = await startControlledWorker({
    address: redis.address,
    presence: serving('a'),
    run: () => Promise.resolve(loadedResult('a')),
  });
  await control.send({ operation: 'load', model: 'a' });
  await dead[Symbol.asyncDispose]();
  expect(await keysOf(dead.presence.id)).not.toEqual([]);

  await sweepControlQueues(connection, Date.now() - 60_000);
  expect(await keysOf(dead.presence.id)).not.toEqual([]);
  await sweepControlQueues(connection, Date.now() + 1);
  expect(await keysOf(dead.presence.id)).toEqual([]);
  expect(await keysOf(alive.presence.id)).not.toEqual([]);
});
