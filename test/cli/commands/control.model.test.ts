/** Two models in one worker process, with real weights, while it works. */
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { readConfig } from '../../../src/core/config.ts';
import { createLogger } from '../../../src/core/logger.ts';
import { asTranscript } from '../../../src/core/results/job-result.ts';
import type { ModelStatus } from '../../../src/core/worker/status.ts';
import { WorkerSettings } from '../../../src/core/worker/worker-settings.ts';
import { ModelStore } from '../../../src/models/store/model-store.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { FleetControl } from '../../../src/queue/fleet/control.ts';
import { readPresence } from '../../../src/queue/fleet/presence.ts';
import { LocalResultStore } from '../../../src/storage/local-result-store.ts';
import { Supervisor } from '../../../src/worker/supervisor/supervisor.ts';
import { signalProcess } from '../../support/process-table.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { BASE_CLIP, expectSaid, SPEECH } from '../../support/speech.ts';
import { runWavepool } from '../../support/wavepool-process.ts';

const WORKER = resolve(import.meta.dirname, '../../../dist/workers/audio-worker.js');
const BATCH = 4;

let redis: TestRedis;
let redisUrl: string;
let supervisor: Supervisor;
let control: FleetControl;
let results: LocalResultStore;
const queues = new Map<string, AudioQueue>();

beforeAll(async () => {
  redis = await startRedis();
  const { address, dataDir } = redis;
  redisUrl = address.kind === 'socket' ? `unix://${address.path}` : address.url;
  const store = new ModelStore({ directory: readConfig().modelsDir, environment: process.env });
  const [model, detector] = [await store.pull('moonshine-tiny'), await store.pull('silero-vad')];
  const { path } = model;
  supervisor = new Supervisor({
    settings: WorkerSettings.parse({
      redis: address,
      resultsDir: join(dataDir, 'results'),
      models: ['first', 'second'].map((id) => ({ id, path, slots: 1, batch: BATCH, threads: 1 })),
      detector: { id: 'silero-vad', path: detector.path },
      unvalidatedSlots: 2,
      logLevel: 'error',
    }),
    workers: 1,
    logger: createLogger('silent', 'test'),
    handBack: () => Promise.resolve(),
    workerScript: WORKER,
  });
  await supervisor.start();
  results = await LocalResultStore.open(join(dataDir, 'results'));
  for (const id of ['first', 'second'])
    queues.set(id, await AudioQueue.open({ address, model: id }));
  control = new FleetControl({ address, connection: await redis.connection() });
});

afterAll(async () => {
  await supervisor.close({ deadlineMs: 0 });
  for (const queue of queues.values()) await queue.close();
  await redis[Symbol.asyncDispose]();
});

function queueOf(model: string): AudioQueue {
  const queue = queues.get(model);
  if (queue === undefined) throw new Error(`no queue of ${model}`);
  return queue;
}

function add(model: string, paths: readonly string[]): Promise<string[]> {
  return queueOf(model).addMany(paths.map((path) => ({ input: { kind: 'path', path } })));
}

async function textsOf(model: string, ids: readonly string[]): Promise<string[]> {
  const texts: string[] = [];
  for (const id of ids) {
    const { resultKey } = await queueOf(model).waitFor(id);
    texts.push(asTranscript(await results.read(resultKey)).text);
  }
  return texts;
}

/** The model as its worker published it, when this holds of it. */
async function published(id: string, holds: (model: ModelStatus) => boolean): Promise<ModelStatus> {
  const connection = await redis.connection();
  return vi.waitFor(
    async () => {
      const [worker] = await readPresence(connection);
      const model = worker?.runtime.models.find((one) => one.id === id);
      if (model === undefined || !holds(model)) throw new Error(JSON.stringify(model));
      return model;
    },
    { timeout: 60_000, interval: 50 },
  );
}

const CLIPS = SPEECH.filter(({ file }) => file.startsWith('sense')).map(({ path }) => path);

test('two models of one worker transcribe at the same time, each from its own queue', async () => {
  const [first = '', second = ''] = await Promise.all(
    ['first', 'second'].map(async (model) => {
      const [text = ''] = await textsOf(model, await add(model, [BASE_CLIP.path]));
      return text;
    }),
  );
  expectSaid(first, BASE_CLIP.reference);
  expect(second).toBe(first);
});

test('a model is reconfigured under load: nothing is lost, and every text is the same', async () => {
  const alone = await textsOf('second', await add('second', CLIPS));
  const rounds = 6;
  const paths = Array.from({ length: rounds }, () => CLIPS).flat();
  const older = await add('first', paths);
  await queueOf('first').waitFor(older[0] ?? '');
  const [outcome] = await control.send({
    operation: 'reconfigure',
    model: 'first',
    settings: { batch: 1, slots: 2 },
  });
  expect(outcome).toMatchObject({
    ok: true,
    models: [{ id: 'first', state: 'ready', reconfigured: true, generation: 2 }],
  });
  const before = await published('first', ({ generation }) => generation === 2);
  const newer = await add('first', CLIPS);
  const texts = await textsOf('first', [...older, ...newer]);
  expect(texts).toEqual(Array.from({ length: rounds + 1 }, () => alone).flat());

  const after = await published(
    'first',
    ({ batches }) => batches.runningBatches === 0 && batches.queuedItems === 0,
  );
  expect(after).toMatchObject({ slots: 2, activeSlots: 0, waitingManagers: 0, generation: 2 });
  const manyAtOnce = (model: ModelStatus): number =>
    model.batches.batchSizes.slice(1).reduce((sum, count) => sum + count, 0);
  expect(manyAtOnce(before)).toBeGreaterThan(0);
  expect(manyAtOnce(after)).toBe(manyAtOnce(before));
  const [worker] = await readPresence(await redis.connection());
  expect(worker?.models).toContainEqual({ id: 'first', slots: 2, batch: 1 });
});

test('an unloaded model is out of memory until its next job', async () => {
  const { code, stdout, stderr } = await runWavepool([
    ...['models', 'unload', 'second', '--redis', redisUrl, '--json'],
  ]);
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    outcomes: [{ ok: true, models: [{ id: 'second', state: 'unloaded', loaded: false }] }],
  });
  expect(await published('second', ({ loaded }) => !loaded)).toMatchObject({
    weightBytes: null,
    sessionBytes: null,
  });
  const [text = ''] = await textsOf('second', await add('second', [BASE_CLIP.path]));
  expectSaid(text, BASE_CLIP.reference);
  await published('second', ({ loaded, generation }) => loaded && generation === 2);
});

test('all models are unloaded together, and all work again', async () => {
  const [outcome] = await control.send({ operation: 'unload-many', models: 'all' });
  if (outcome?.ok !== true) throw new Error(JSON.stringify(outcome));
  expect(outcome.models.map(({ id, loaded }) => [id, loaded]).toSorted()).toEqual([
    ['first', false],
    ['second', false],
    ['silero-vad', false],
  ]);
  const ids = await Promise.all(['first', 'second'].map((model) => add(model, [BASE_CLIP.path])));
  const [[first = ''] = [], [second = ''] = []] = await Promise.all(
    ['first', 'second'].map((model, at) => textsOf(model, ids[at] ?? [])),
  );
  expectSaid(first, BASE_CLIP.reference);
  expect(second).toBe(first);
});

test('a worker that is killed is told as gone, and the one in its place begins anew', async () => {
  const [worker] = await readPresence(await redis.connection());
  const [pid] = supervisor.pids;
  signalProcess(pid, 'SIGSTOP');
  const sending = control.send({ operation: 'unload', model: 'first' });
  signalProcess(pid, 'SIGKILL');
  expect(await sending).toMatchObject([
    { ok: false, worker: worker?.id, error: { code: 'WORKER_GONE' } },
  ]);
  expect(await published('first', ({ generation }) => generation === 1)).toMatchObject({
    slots: 1,
    state: 'ready',
  });
});
