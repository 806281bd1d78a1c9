import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolClient } from '../../../src/client/wavepool-client.ts';
import { WavepoolError } from '../../../src/core/errors.ts';
import { ServiceEvent } from '../../../src/core/http/events.ts';
import type { BatchView } from '../../../src/core/job/batch.ts';
import { createLogger } from '../../../src/core/logger.ts';
import { PROGRESS_MS } from '../../../src/http/event-streams/follow-batch.ts';
import { toQueueError } from '../../../src/queue/jobs/failures.ts';
import { Housekeeping } from '../../../src/worker/housekeeping/housekeeping.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { readSse, type SseEvent, type SseReader } from '../../support/sse.ts';
import { outcomeOf, startManualWorker, startWorker } from '../../support/worker.ts';

let server: TestServer;
let housekeeping: Housekeeping;
/** Told counts and the like, when a test says so. */
const tasks = new Set<{ ms: number; task: () => void }>();
beforeAll(async () => {
  server = await startTestServer({
    every: (ms, task) => {
      const entry = { ms, task };
      tasks.add(entry);
      return () => tasks.delete(entry);
    },
  });
  const logger = createLogger('silent', 'test');
  housekeeping = await Housekeeping.start({ address: server.redis.address, logger });
});
afterAll(async () => {
  await housekeeping.close();
  await server[Symbol.asyncDispose]();
});

function passSecond(): void {
  for (const entry of [...tasks]) if (entry.ms === PROGRESS_MS) entry.task();
}

function submit(tenant = 'default'): Promise<BatchView> {
  const names = ['a', 'bad', 'c', 'd', 'e'];
  return server.services.batches.create({
    model: TEST_MODEL,
    tenant,
    jobs: names.map((name) => ({ input: { kind: 'path', path: `/audio/${name}.wav` } })),
  });
}

/** Runs jobs one at a time; inputs called `bad` fail. */
function transcribe(): AsyncDisposable {
  return startWorker(server.redis.address, TEST_MODEL, ({ data: { input } }) => {
    if (input.kind === 'path' && input.path.includes('bad')) {
      throw new WavepoolError('INPUT_UNDECODABLE', 'bad');
    }
  });
}

function follow(id: string, lastEventId?: string): Promise<SseReader> {
  return readSse(`${server.url}/v1/batches/${id}/events`, lastEventId);
}

const types = (events: readonly SseEvent[]): string[] => events.map(({ type }) => type);
const isEnd = ({ type }: SseEvent): boolean => type === 'job.completed' || type === 'job.failed';

const FINISHED = {
  type: 'batch.finished',
  model: TEST_MODEL,
  state: 'completed',
  counts: { total: 5, waiting: 0, running: 0, completed: 4, failed: 1, cancelled: 0 },
};

test('the stream of a batch begins with a snapshot, tells counts that grow, and ends with it', async () => {
  const { id } = await submit();
  using reader = await follow(id);
  expect(await reader.next()).toMatchObject({
    type: 'batch.snapshot',
    data: { batch: { id, state: 'running', counts: { total: 5, waiting: 5 } } },
  });
  using jobs = await readSse(`${server.url}/v1/events?types=job.*`);
  await using worker = startManualWorker(server.redis.address, TEST_MODEL);
  const undecodable = toQueueError(new WavepoolError('INPUT_UNDECODABLE', 'bad'));
  for (let ended = 1; ended <= 5; ended += 1) {
    const { job, token } = await worker.take();
    if (ended === 2) await job.moveToFailed(undecodable, token, false);
    else await job.moveToCompleted(outcomeOf('a'), token, false);
    await jobs.until(isEnd);
    if (ended === 5) break;
    passSecond();
    const failed = ended < 2 ? 0 : 1;
    const counts = { total: 5, waiting: 5 - ended, completed: ended - failed, failed };
    expect(await reader.next()).toMatchObject({
      type: 'batch.progress',
      data: { batchId: id, counts },
    });
  }
  const events = await reader.rest();
  expect(types(events)).toEqual(['batch.finished']);
  expect(ServiceEvent.parse(events[0]?.data)).toMatchObject({
    ...FINISHED,
    batchId: id,
    finishedAt: expect.any(String),
  });
});

test('a reader of a batch that comes back goes on where it was, until it knows the end', async () => {
  const { id } = await submit();
  const first = await follow(id);
  const snapshot = await first.next();
  first.close();
  {
    await using _ = transcribe();
    using all = await follow(id);
    await all.rest();
  }
  using second = await follow(id, snapshot?.id);
  const [end, ...more] = await second.rest();
  expect(end?.data).toMatchObject({ ...FINISHED, batchId: id });
  expect(more).toEqual([]);
  using third = await follow(id, end?.id);
  expect(third.response.status).toBe(204);
  // A retry is a new story.
  await server.services.batches.retryFailed(id);
  using fourth = await follow(id, end?.id);
  expect(await fourth.next()).toMatchObject({ type: 'batch.retried', data: { state: 'running' } });
  await using _ = transcribe();
  expect((await fourth.rest()).at(-1)?.data).toMatchObject({ ...FINISHED, batchId: id });
});

test('the stream of a cancelled batch tells so and ends', async () => {
  const { id } = await submit();
  using reader = await follow(id);
  await reader.next();
  await server.services.batches.cancel(id);
  const events = await reader.rest();
  expect(types(events).at(-1)).toBe('batch.finished');
  expect(events.at(-1)?.data).toMatchObject({ state: 'cancelled', counts: { cancelled: 5 } });
  using none = await follow('none');
  expect(none.response.status).toBe(404);
});

test('the stream of all queues tells of batches, by type and tenant', async () => {
  using reader = await readSse(`${server.url}/v1/events?types=batch.*&tenant=acme`);
  await using _ = transcribe();
  await submit('other');
  const { id } = await submit('acme');
  const events = await reader.until(({ type }) => type === 'batch.finished');
  expect(types(events)).toEqual(['batch.opened', 'batch.closed', 'batch.finished']);
  for (const { data } of events) {
    expect(ServiceEvent.parse(data)).toMatchObject({ batchId: id, tenant: 'acme' });
  }
  expect(events.at(-1)?.data).toMatchObject(FINISHED);
});

test('the client iterates over the events of a batch', async () => {
  const { batches } = new WavepoolClient({ baseUrl: server.url });
  const { id } = await submit();
  const told: string[] = [];
  const feed = batches.events(id);
  await using _ = transcribe();
  for await (const event of feed) {
    told.push(event.type);
    if (event.type === 'batch.finished') expect(event).toMatchObject({ ...FINISHED, batchId: id });
  }
  expect(told[0]).toBe('batch.snapshot');
  expect(told.at(-1)).toBe('batch.finished');
  // Nothing more comes for who knows the end.
  const again = batches.events(id, { lastEventId: feed.lastEventId });
  for await (const event of again) expect.fail(event.type);
});
