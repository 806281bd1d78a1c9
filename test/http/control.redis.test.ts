import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import { WavepoolError } from '../../src/core/errors.ts';
import { ControlAnswer, ControlFailedError } from '../../src/core/http/control-api.ts';
import { ProblemDetails } from '../../src/core/http/problem.ts';
import type { ControlCommand, ControlResult } from '../../src/core/worker/control.ts';
import {
  type ControlledWorker,
  loadedResult,
  startControlledWorker,
} from '../support/controlled-worker.ts';
import { startTestServer, type TestServer } from '../support/http.ts';
import { modelStatusOf } from '../support/presence.ts';

let server: TestServer;
let client: WavepoolClient;
/** What the workers that have `a` were told. */
let heard: ControlCommand[];
let workers: ControlledWorker[];

beforeAll(async () => {
  server = await startTestServer();
  client = new WavepoolClient({ baseUrl: server.url, maxRetries: 0 });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Starts a worker for each answer. */
async function withWorkers(
  given: readonly ((signal: AbortSignal) => Promise<ControlResult>)[],
): Promise<AsyncDisposable> {
  heard = [];
  workers = [];
  for (const [at, answer] of given.entries()) {
    workers.push(
      await startControlledWorker({
        address: server.redis.address,
        presence: {
          startedAt: at,
          runtime: { build: 'test', models: [modelStatusOf('a'), modelStatusOf('b')] },
        },
        run: (command, signal) => {
          heard.push(command);
          return answer(signal);
        },
      }),
    );
  }
  return {
    [Symbol.asyncDispose]: async () => {
      for (const worker of workers) await worker[Symbol.asyncDispose]();
    },
  };
}

const succeed = () => Promise.resolve(loadedResult('a'));
const fail = (code: 'CAPACITY_UNVALIDATED' | 'BUSY_OVERDUE' | 'INSUFFICIENT_MEMORY') => () =>
  Promise.reject(new WavepoolError(code, 'as told'));

const never = (signal: AbortSignal) =>
  new Promise<ControlResult>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('withdrawn')));
  });

async function problem(response: Response): Promise<ProblemDetails> {
  const details = ProblemDetails.parse(await response.json());
  expect(details.status).toBe(response.status);
  return details;
}

test('each worker answers for itself; one that did it is enough', async () => {
  await using _ = await withWorkers([succeed, fail('INSUFFICIENT_MEMORY')]);
  const response = await server.post('/v1/models/a/load', { settings: { batch: 2 } });
  expect(response.status).toBe(200);
  const { outcomes } = ControlAnswer.parse(await response.json());
  expect(outcomes).toMatchObject([
    { ok: true, worker: workers[0]?.presence.id, models: [{ id: 'a', state: 'ready' }] },
    { ok: false, worker: workers[1]?.presence.id, error: { code: 'INSUFFICIENT_MEMORY' } },
  ]);
  const command = { operation: 'load', model: 'a', settings: { batch: 2 } };
  expect(heard).toEqual([command, command]);
});

test('nothing has to be said to load or unload a model', async () => {
  await using _ = await withWorkers([succeed]);
  for (const operation of ['load', 'unload']) {
    const response = await server.request(`/v1/models/a/${operation}`, { method: 'POST' });
    expect(response.status).toBe(200);
  }
  expect(heard).toMatchObject([{ operation: 'load' }, { operation: 'unload' }]);
});

test('when no worker did it, the answer is the reason of the first', async () => {
  await using _ = await withWorkers([fail('CAPACITY_UNVALIDATED'), fail('BUSY_OVERDUE')]);
  const settings = { slots: 2 };
  const details = await problem(await server.post('/v1/models/a/reconfigure', { settings }));
  expect(details).toMatchObject({
    status: 400,
    code: 'CAPACITY_UNVALIDATED',
    detail: 'this slot count is not validated: as told',
    outcomes: [{ ok: false }, { ok: false, error: { code: 'BUSY_OVERDUE' } }],
  });
});

test('a bad request is refused before any worker hears of it', async () => {
  await using _ = await withWorkers([succeed]);
  const codeOf = async (path: string, body: unknown) => {
    const { status, code } = await problem(await server.post(path, body));
    return [status, code];
  };
  for (const slots of [0, 17, 1.5, null, true, '2', -1, 4_294_967_297]) {
    expect(await codeOf('/v1/models/a/reconfigure', { settings: { slots } })).toEqual([
      400,
      'INVALID_REQUEST',
    ]);
  }
  const bad = [400, 'INVALID_REQUEST'];
  expect(await codeOf('/v1/models/a/reconfigure', {})).toEqual(bad);
  expect(await codeOf('/v1/models/a/load', { slots: 1 })).toEqual(bad);
  expect(await codeOf('/v1/models/a/load', { workers: ['x'] })).toEqual(bad);
  expect(await codeOf('/v1/models/unload', { models: ['a', 3] })).toEqual(bad);
  expect(await codeOf('/v1/models/unload', { models: [] })).toEqual(bad);
  const unknown = [404, 'MODEL_UNKNOWN'];
  expect(await codeOf('/v1/models/nobody-has-it/unload', {})).toEqual(unknown);
  expect(await codeOf('/v1/models/No%20model/load', {})).toEqual(unknown);
  const strange = '00000000-0000-4000-8000-000000000000';
  expect(await codeOf('/v1/models/a/load', { workers: [strange] })).toEqual([503, 'NO_WORKER']);
  expect(heard).toEqual([]);
});

test('without a live worker the answer says so', async () => {
  expect(await problem(await server.post('/v1/models/a/load', {}))).toMatchObject({
    status: 503,
    code: 'NO_WORKER',
    retryable: true,
  });
});

test('a worker that is late is told as such', async () => {
  await using _ = await withWorkers([never]);
  const response = await server.post('/v1/models/a/unload', { timeoutMs: 20 });
  expect(await problem(response)).toMatchObject({ status: 504, code: 'CONTROL_TIMEOUT' });
});

test('only who may manage may control models', async () => {
  await using guarded = await startTestServer();
  const { key } = await guarded.services.keys.create('r', ['read', 'submit']);
  const authorization = `Bearer ${key}`;
  for (const path of ['a/load', 'a/unload', 'a/reconfigure', 'unload']) {
    const response = await guarded.post(`/v1/models/${path}`, {}, { authorization });
    expect(await problem(response)).toMatchObject({ status: 403, code: 'FORBIDDEN' });
  }
});

test('the SDK sends commands, and throws what no worker could do', async () => {
  await using _ = await withWorkers([succeed]);
  const workerIds = [workers[0]?.presence.id ?? ''];
  await client.models.load('a', { settings: { threads: 2 } });
  await client.models.unload('a', { workers: workerIds });
  await client.models.reconfigure('a', { settings: { slots: 1 }, strategy: 'load-first' });
  expect(await client.models.unloadMany(['a', 'b'])).toMatchObject([{ ok: true }]);
  expect(heard).toEqual([
    { operation: 'load', model: 'a', settings: { threads: 2 } },
    { operation: 'unload', model: 'a' },
    {
      operation: 'reconfigure',
      model: 'a',
      settings: { slots: 1 },
      replace: false,
      strategy: 'load-first',
    },
    { operation: 'unload-many', models: ['a', 'b'] },
  ]);
  await expect(client.models.unload('none')).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' });

  await workers[0]?.[Symbol.asyncDispose]();
  await using _more = await withWorkers([fail('BUSY_OVERDUE')]);
  const failing = client.models.unload('a');
  await expect(failing).rejects.toBeInstanceOf(ControlFailedError);
  await expect(failing).rejects.toMatchObject({
    code: 'BUSY_OVERDUE',
    detail: 'as told',
    outcomes: [{ ok: false, error: { code: 'BUSY_OVERDUE' } }],
  });
});
