import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { WavepoolClient } from '../../../src/client/wavepool-client.ts';
import { WavepoolError } from '../../../src/core/errors.ts';
import {
  BatchMessage,
  JobMessage,
  WebhookMessage,
} from '../../../src/core/http/webhook-message.ts';
import type { JobId } from '../../../src/core/job/job.ts';
import { createLogger } from '../../../src/core/logger.ts';
import type { JobWebhook } from '../../../src/core/webhook.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { bullKey } from '../../../src/queue/redis/queue-names.ts';
import { Housekeeping } from '../../../src/worker/housekeeping/housekeeping.ts';
import type { WebhookSettings } from '../../../src/worker/housekeeping/webhooks.ts';
import { compileProgram } from '../../support/compile.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { type Received, WebhookReceiver } from '../../support/webhook-receiver.ts';
import { startWorker } from '../../support/worker.ts';
import type { HousekeepingRequest } from './housekeeping-program.ts';

vi.setConfig({ testTimeout: 30_000 });

const SETTINGS = {
  allowedNetworks: ['127.0.0.0/8'],
  limits: { backoffMs: 1, followMs: 50, lockMs: 1_000 },
} satisfies WebhookSettings;

let server: TestServer;
let client: WavepoolClient;
let queue: AudioQueue;
let worker: AsyncDisposable;
beforeAll(async () => {
  server = await startTestServer();
  client = new WavepoolClient({ baseUrl: server.url });
  const { address } = server.redis;
  queue = await AudioQueue.open({ address, model: TEST_MODEL });
  worker = startWorker(address, TEST_MODEL, ({ data: { input } }) => {
    if (input.kind === 'path' && input.path.startsWith('/bad'))
      throw new WavepoolError('INPUT_UNDECODABLE', input.path);
  });
});
afterAll(async () => {
  await worker[Symbol.asyncDispose]();
  await queue.close();
  await server[Symbol.asyncDispose]();
});

function housekeeping(webhooks: WebhookSettings = SETTINGS): Promise<Housekeeping> {
  const logger = createLogger('silent', 'test');
  return Housekeeping.start({ address: server.redis.address, logger, webhooks });
}

interface Wanted extends Partial<JobWebhook> {
  readonly url: string;
  readonly tenant?: string;
}

/** Adds a job for a path; those that begin with `/bad` fail. */
function addJob(path: string, { tenant = 'default', ...webhook }: Wanted): Promise<JobId> {
  return queue.add({ input: { kind: 'path', path }, tenant, webhook });
}

async function endOf(id: JobId): Promise<void> {
  await queue.waitFor(id).catch((error: unknown) => {
    if (!(error instanceof WavepoolError)) throw error;
  });
}

function message({ body }: Received): WebhookMessage {
  return WebhookMessage.parse(JSON.parse(body));
}

/** The one delivery about a job, when it is in this state. */
async function deliveryOf(id: JobId, state: string) {
  return vi.waitFor(
    async () => {
      const [delivery, ...more] = await client.webhooks.ofJob(id);
      expect(more).toEqual([]);
      if (delivery?.state !== state) throw new Error(JSON.stringify(delivery));
      return delivery;
    },
    { timeout: 20_000 },
  );
}

describe('the end of a job', () => {
  test('is told signed, with its outcome or failure, when it is asked for', async () => {
    await using receiver = await WebhookReceiver.start(204);
    await using _ = await housekeeping();
    const unwanted = await addJob('/a.wav', { url: receiver.url, events: ['failed'] });
    await endOf(unwanted);
    const completed = await client.jobs.submit({
      url: 'http://192.0.2.1/a.wav',
      tenant: 'desk',
      webhook: { url: `${receiver.url}?key=hidden` },
    });
    const failed = await addJob('/bad.wav', { url: receiver.url, events: ['failed'] });
    const requests = await receiver.first(2);
    const told = new Map(requests.map((request) => [message(request).data.id, request]));
    const [one, other] = [told.get(completed.id), told.get(failed)];
    if (one === undefined || other === undefined) throw new Error('both are told');
    expect(one.path).toBe('/hook?key=hidden');
    expect(one.headers['user-agent']).toMatch(/^wavepool\//);
    const { secrets } = await client.webhooks.secret();
    const verified = new Webhook(secrets[0]?.secret ?? '').verify(one.body, { ...one.headers });
    expect(JobMessage.parse(verified)).toMatchObject({
      type: 'job.completed',
      data: {
        tenant: 'desk',
        state: 'completed',
        batchId: null,
        outcome: { segments: 1 },
        failure: null,
        links: { self: `/v1/jobs/${completed.id}` },
      },
    });
    expect(one.body).not.toContain('resultKey');
    expect(message(other)).toMatchObject({
      type: 'job.failed',
      data: { outcome: null, failure: { code: 'INPUT_UNDECODABLE' } },
    });
    const delivery = await deliveryOf(completed.id, 'delivered');
    expect(delivery).toMatchObject({
      id: one.headers['webhook-id'],
      url: receiver.url,
      attempts: [{ status: 204, error: null }],
      nextAttemptAt: null,
    });
    expect(await client.webhooks.ofJob(unwanted)).toEqual([]);
  });

  test('is told again under one id until it is taken', async () => {
    await using receiver = await WebhookReceiver.start(500, (response) => response.destroy(), 200);
    await using _ = await housekeeping();
    const id = await addJob('/again.wav', { url: receiver.url });
    const requests = await receiver.first(3);
    expect(new Set(requests.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(new Set(requests.map(({ body }) => body)).size).toBe(1);
    const { attempts } = await deliveryOf(id, 'delivered');
    expect(attempts.map(({ status }) => status)).toEqual([500, null, 200]);
    expect(attempts[0]?.error).toContain('500');
  });

  test('is not told again to a receiver that is gone, unless somebody asks for it', async () => {
    await using receiver = await WebhookReceiver.start(410, 200);
    await using _ = await housekeeping();
    const id = await addJob('/gone.wav', { url: receiver.url });
    const { id: delivery, attempts } = await deliveryOf(id, 'failed');
    expect(attempts.map(({ status }) => status)).toEqual([410]);
    await client.webhooks.redeliver(delivery);
    await deliveryOf(id, 'delivered');
    const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
    expect(ids).toEqual([delivery, delivery]);
  });

  test('is not told to where a redirect leads, nor to a network that is not allowed', async () => {
    await using target = await WebhookReceiver.start(200);
    await using receiver = await WebhookReceiver.start(
      (response) => response.writeHead(307, { location: target.url }).end(),
      200,
    );
    {
      await using _ = await housekeeping();
      const id = await addJob('/redirect.wav', { url: receiver.url });
      const { attempts } = await deliveryOf(id, 'delivered');
      expect(attempts.map(({ status }) => status)).toEqual([307, 200]);
    }
    await using _ = await housekeeping({ ...SETTINGS, allowedNetworks: [] });
    const id = await addJob('/inside.wav', { url: target.url });
    const { attempts } = await deliveryOf(id, 'failed');
    expect(attempts).toMatchObject([{ status: null, error: expect.stringContaining('FORBIDDEN') }]);
    expect(target.received).toEqual([]);
  });

  test('is told to others while one receiver never answers', async () => {
    await using slow = await WebhookReceiver.start(() => undefined);
    await using quick = await WebhookReceiver.start(200);
    await using _ = await housekeeping({
      ...SETTINGS,
      limits: { ...SETTINGS.limits, timeoutMs: 1_000 },
    });
    const held = Array.from({ length: 40 }, (_each, at) =>
      addJob(`/slow-${at}.wav`, { url: slow.url }),
    );
    for (const id of await Promise.all(held)) await endOf(id);
    await slow.first(1);
    const id = await addJob('/quick.wav', { url: quick.url });
    await deliveryOf(id, 'delivered');
    expect(slow.received.length).toBeGreaterThan(0);
    expect(slow.mostAtOnce).toBeLessThanOrEqual(2);
  });

  test('is told of each time, though the job is retried or forgotten before anybody looked', async () => {
    await using receiver = await WebhookReceiver.start(200);
    const id = await addJob('/bad-twice.wav', { url: receiver.url });
    await endOf(id);
    expect(await queue.retry(id)).toBe(true);
    await endOf(id);
    expect(await queue.remove(id)).toBe(true);
    await using _ = await housekeeping();
    const requests = await receiver.first(2);
    expect(requests.map((request) => message(request).data.id)).toEqual([id, id]);
    expect(new Set(requests.map(({ headers }) => headers['webhook-id'])).size).toBe(2);
  });
});

test('nothing is lost when the process dies between the end of a job and its delivery', async () => {
  await using receiver = await WebhookReceiver.start(() => undefined, 200);
  await using program = await compileProgram(`${import.meta.dirname}/housekeeping-program.ts`);
  const child = fork(program.path);
  const request: HousekeepingRequest = { address: server.redis.address, webhooks: SETTINGS };
  child.send(request);
  await once(child, 'message');
  const sent = await addJob('/sent.wav', { url: receiver.url });
  const [held] = await receiver.first(1);
  child.kill('SIGKILL');
  await once(child, 'exit');
  const unseen = await addJob('/unseen.wav', { url: receiver.url });
  await endOf(unseen);
  const redis = await server.redis.connection();
  await redis.xtrim(bullKey(redis, TEST_MODEL, 'events'), 'MAXLEN', 0);
  await using _ = await housekeeping();
  await deliveryOf(unseen, 'delivered');
  const { id } = await deliveryOf(sent, 'delivered');
  expect(held?.headers['webhook-id']).toBe(id);
});

test('the end of a batch is told once for each time that it finished, its items when asked for', async () => {
  await using receiver = await WebhookReceiver.start(200);
  await using _ = await housekeeping();
  const inputs = ['http://192.0.2.1/a.wav', 'http://192.0.2.1/b.wav'].map((url) => ({ url }));
  const batch = await client.batches.submit({
    ...{ name: 'Monday', inputs },
    webhook: { url: receiver.url, events: ['finished', 'completed'] },
  });
  const messages = (await receiver.first(3)).map(message);
  const items = messages.filter(({ type }) => type === 'job.completed');
  expect(items.map(({ data }) => 'batchId' in data && data.batchId)).toEqual([batch.id, batch.id]);
  const [finished, ...more] = messages.filter(({ type }) => type === 'batch.finished');
  expect(more).toEqual([]);
  expect(BatchMessage.parse(finished).data).toMatchObject({
    id: batch.id,
    name: 'Monday',
    state: 'completed',
    counts: { total: 2, completed: 2 },
    links: { self: `/v1/batches/${batch.id}` },
  });
  expect(await client.webhooks.ofBatch(batch.id)).toMatchObject([
    { event: 'batch.finished', subject: { kind: 'batch', id: batch.id } },
  ]);
});

test('a secret is replaced while both sign, and a tenant has its own', async () => {
  await using receiver = await WebhookReceiver.start(200);
  await using _ = await housekeeping();
  const [old] = (await client.webhooks.secret('law')).secrets;
  const { secrets: first } = await client.webhooks.rotateSecret({ tenant: 'law' });
  expect(first).toHaveLength(1);
  expect(first[0]?.secret).not.toBe(old?.secret);
  const { secrets } = await client.webhooks.rotateSecret({ tenant: 'law' });
  expect(secrets).toMatchObject([{ expiresAt: null }, { secret: first[0]?.secret }]);
  await addJob('/law.wav', { url: receiver.url, tenant: 'law' });
  const [request] = await receiver.first(1);
  if (request === undefined) throw new Error('it is told');
  for (const { secret } of secrets) {
    expect(new Webhook(secret).verify(request.body, { ...request.headers })).toBeDefined();
  }
  expect(() => new Webhook(old?.secret ?? '').verify(request.body, { ...request.headers })).toThrow(
    'No matching signature',
  );
  await client.webhooks.rotateSecret({ tenant: 'law', keepOldMs: 0 });
  expect((await client.webhooks.secret('law')).secrets).toHaveLength(1);
});
