import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolClient } from '../../../src/client/wavepool-client.ts';
import { WavepoolError } from '../../../src/core/errors.ts';
import { JobResource, SessionResource } from '../../../src/core/http/api.ts';
import type { ApiKeyScope } from '../../../src/core/http/api-key.ts';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { ROUTES } from '../../../src/http/route-table.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { startModelQueue } from '../../support/model-queue.ts';
import { readSse } from '../../support/sse.ts';

const ALL: ApiKeyScope[] = ['read', 'submit', 'manage'];
const FORBIDDEN = { code: 'FORBIDDEN' };
const HOOK = { url: 'https://hooks.example/wavepool' };

interface Party {
  readonly key: string;
  readonly client: WavepoolClient;
}

let server: TestServer;
let admin: Party;
let acme: Party;
let other: Party;
let path: string;

beforeAll(async () => {
  server = await startTestServer();
  admin = await party();
  acme = await party('acme');
  other = await party('other');
  path = join(server.inputRoot, 'a.wav');
  await writeFile(path, 'audio');
});
afterAll(() => server[Symbol.asyncDispose]());

async function party(tenant?: string): Promise<Party> {
  const { key } = await server.services.keys.create('test', ALL, tenant);
  return { key, client: clientOf(key) };
}

function clientOf(apiKey: string): WavepoolClient {
  return new WavepoolClient({ baseUrl: server.url, apiKey, maxRetries: 0 });
}

function as({ key }: Party, more: Record<string, string> = {}): Record<string, string> {
  return { authorization: `Bearer ${key}`, ...more };
}

async function codeOf(response: Response): Promise<string> {
  return ProblemDetails.parse(await response.json()).code;
}

async function idsOf(items: AsyncIterable<{ readonly id: string }>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of items) ids.push(id);
  return ids;
}

test('a route that does not keep tenants apart refuses their keys', async () => {
  const closed = ROUTES.filter(({ scope, forTenants }) => scope !== 'public' && !forTenants);
  expect(closed.map(({ path: route }) => route)).toEqual(
    expect.arrayContaining(['/v1/workers', '/v1/keys', '/metrics', '/v1/tenants/:tenant']),
  );
  for (const { method, path: route } of closed) {
    const headers = as(acme, { 'content-type': 'application/json' });
    const init = { method: method.toUpperCase(), headers };
    const response = await server.request(route.replace(/:\w+/, 'x'), init);
    expect([route, await codeOf(response)]).toEqual([route, 'FORBIDDEN']);
  }
  const board = await server.request('/dashboard/queues/api/queues', { headers: as(acme) });
  expect(await codeOf(board)).toBe('FORBIDDEN');
});

test('jobs of a key are its tenant’s, and a tenant that says otherwise is refused', async () => {
  const job = await acme.client.jobs.submit({ serverPath: path });
  expect(job.tenant).toBe('acme');
  const named = await acme.client.jobs.submit({ serverPath: path, tenant: 'acme' });
  expect(named.tenant).toBe('acme');
  for (const tenant of ['other', 'default']) {
    await expect(acme.client.jobs.submit({ serverPath: path, tenant })).rejects.toMatchObject(
      FORBIDDEN,
    );
  }
  const form = new FormData();
  form.append('file', new Blob(['sent in a form']), 'a.wav');
  form.append('tenant', 'other');
  const sent = { method: 'POST', headers: as(acme), body: form };
  expect(await codeOf(await server.request('/v1/jobs', sent))).toBe('FORBIDDEN');
  expect((await admin.client.jobs.submit({ serverPath: path })).tenant).toBe('default');
  const forOther = await admin.client.jobs.submit({ serverPath: path, tenant: 'other' });
  expect(new Set(await idsOf(acme.client.jobs.list({})))).toEqual(new Set([job.id, named.id]));
  expect(await idsOf(other.client.jobs.list({ tenant: 'other' }))).toEqual([forOther.id]);
  await expect(idsOf(acme.client.jobs.list({ tenant: 'other' }))).rejects.toMatchObject(FORBIDDEN);
  expect(await idsOf(admin.client.jobs.list({}))).toHaveLength(4);
});

test('one idempotency key of one caller gives the same job, with its tenant named or not', async () => {
  const submit = (tenant?: string) =>
    server.request('/v1/jobs', {
      method: 'POST',
      headers: as(acme, { 'content-type': 'application/json', 'idempotency-key': 'once' }),
      body: JSON.stringify({ input: { path }, tenant }),
    });
  const [first, second] = [await submit(), await submit('acme')];
  const { id } = JobResource.parse(await first.json());
  expect(JobResource.parse(await second.json()).id).toBe(id);
});

test('a job of another tenant is not there, and stays as it is', async () => {
  const { id } = await other.client.jobs.submit({ serverPath: path, webhook: HOOK });
  for (const [method, place] of [
    ['GET', ''],
    ['GET', '/result'],
    ['GET', '/events'],
    ['GET', '/deliveries'],
    ['DELETE', ''],
    ['DELETE', '?purge'],
    ['POST', '/retry'],
  ]) {
    const init = { method: method ?? '', headers: as(acme) };
    const response = await server.request(`/v1/jobs/${id}${place}`, init);
    expect([method, place, await codeOf(response)]).toEqual([method, place, 'JOB_NOT_FOUND']);
  }
  expect(await other.client.jobs.get(id)).toMatchObject({ state: 'waiting' });
  expect(await admin.client.jobs.cancel(id)).toMatchObject({ result: 'cancelled' });
});

test('batches are their tenant’s, however they are sent', async () => {
  const inputs = [{ serverPath: path }];
  const mine = await acme.client.batches.submit({ inputs });
  expect(mine.tenant).toBe('acme');
  const theirs = await other.client.batches.submit({ inputs });
  await expect(acme.client.batches.submit({ inputs, tenant: 'other' })).rejects.toMatchObject(
    FORBIDDEN,
  );
  const lines = `{"batch":{"tenant":"other"}}\n${JSON.stringify({ path })}\n`;
  const headers = as(acme, { 'content-type': 'application/x-ndjson' });
  const sent = await server.request('/v1/batches', { method: 'POST', headers, body: lines });
  expect(await codeOf(sent)).toBe('FORBIDDEN');
  expect(await idsOf(acme.client.batches.list({}))).toEqual([mine.id]);
  for (const [method, place] of [
    ['GET', ''],
    ['GET', '/items'],
    ['GET', '/results'],
    ['GET', '/events'],
    ['GET', '/deliveries'],
    ['DELETE', ''],
    ['POST', '/retry'],
  ]) {
    const init = { method: method ?? '', headers: as(acme) };
    const response = await server.request(`/v1/batches/${theirs.id}${place}`, init);
    expect([method, place, await codeOf(response)]).toEqual([method, place, 'BATCH_NOT_FOUND']);
  }
  expect(await other.client.batches.get(theirs.id)).toMatchObject({ state: 'running' });
  const items = await server.request(`/v1/batches/${mine.id}/items`, { headers: as(acme) });
  expect(items.status).toBe(200);
});

test('to know the hash of an upload is not to have it, and to give it up harms nobody else', async () => {
  const missing = { code: 'INPUT_NOT_FOUND' };
  const bytes = Buffer.from('the same bytes');
  const { id: uploadId } = await other.client.uploads.create(bytes);
  await expect(acme.client.jobs.submit({ uploadId })).rejects.toMatchObject(missing);
  await expect(acme.client.batches.submit({ inputs: [{ uploadId }] })).rejects.toMatchObject(
    missing,
  );
  expect((await acme.client.uploads.create(bytes)).id).toBe(uploadId);
  const job = await acme.client.jobs.submit({ uploadId });
  await acme.client.jobs.cancel(job.id);
  expect(await acme.client.jobs.cancel(job.id, { purge: true })).toMatchObject({ purged: true });
  await expect(acme.client.jobs.submit({ uploadId })).rejects.toMatchObject(missing);
  const theirs = await other.client.jobs.submit({ uploadId });
  await other.client.jobs.cancel(theirs.id);
  await other.client.jobs.cancel(theirs.id, { purge: true });
  await expect(admin.client.jobs.submit({ uploadId })).rejects.toMatchObject(missing);
});

test('a file of OpenAI’s clients is a job of the key’s tenant', async () => {
  const { address } = server.redis;
  const seen: string[] = [];
  await using _worker = await startModelQueue(address, TEST_MODEL, 1, ({ data }) => {
    seen.push(data.tenant);
    return Promise.reject(new WavepoolError('INPUT_UNDECODABLE', 'it is seen'));
  });
  const form = new FormData();
  form.append('file', new Blob(['spoken']), 'a.wav');
  const init = { method: 'POST', headers: as(acme), body: form };
  const response = await server.request('/v1/audio/transcriptions', init);
  expect(response.ok).toBe(false);
  expect(seen).toContain('acme');
});

test('schedules are their tenant’s', async () => {
  const when = { input: { path }, cron: '0 3 * * *' };
  expect(await acme.client.schedules.set('nightly', when)).toMatchObject({ tenant: 'acme' });
  await expect(
    acme.client.schedules.set('more', { ...when, tenant: 'other' }),
  ).rejects.toMatchObject(FORBIDDEN);
  await expect(other.client.schedules.set('nightly', when)).rejects.toMatchObject(FORBIDDEN);
  await expect(other.client.schedules.remove('nightly')).rejects.toMatchObject(FORBIDDEN);
  expect(await other.client.schedules.list()).toEqual([]);
  expect(await acme.client.schedules.list()).toHaveLength(1);
  await acme.client.schedules.remove('nightly');
  expect(await admin.client.schedules.list()).toEqual([]);
});

test('a key hears the events of its tenant alone', async () => {
  const follow = (query: string) =>
    readSse(`${server.url}/v1/events?types=job.*${query}`, undefined, as(acme));
  using refused = await follow('&tenant=other');
  expect(refused.response.status).toBe(403);
  using reader = await follow('');
  await other.client.jobs.cancel((await other.client.jobs.submit({ serverPath: path })).id);
  const { id } = await acme.client.jobs.submit({ serverPath: path });
  await acme.client.jobs.cancel(id);
  const heard = await reader.until(({ type }) => type === 'job.failed');
  expect(new Set(heard.map(({ data: { jobId } }) => jobId))).toEqual(new Set([id]));
});

test('deliveries and secrets of webhooks are their tenant’s', async () => {
  const { id } = await other.client.jobs.submit({ serverPath: path, webhook: HOOK });
  await other.client.jobs.cancel(id);
  // Its end is told before it is forgotten.
  await other.client.jobs.retry(id);
  await other.client.jobs.cancel(id);
  const [delivery] = await other.client.webhooks.ofJob(id);
  const delivered = delivery?.id ?? '';
  expect(await other.client.webhooks.get(delivered)).toMatchObject({ event: 'job.cancelled' });
  expect(await other.client.webhooks.redeliver(delivered)).toMatchObject({ id: delivered });
  const missing = { code: 'DELIVERY_NOT_FOUND' };
  await expect(acme.client.webhooks.get(delivered)).rejects.toMatchObject(missing);
  await expect(acme.client.webhooks.redeliver(delivered)).rejects.toMatchObject(missing);
  // The server's secret, which signs for whoever has none, would sign for others.
  await expect(acme.client.webhooks.secret()).rejects.toMatchObject(FORBIDDEN);
  await expect(acme.client.webhooks.secret('other')).rejects.toMatchObject(FORBIDDEN);
  await expect(acme.client.webhooks.rotateSecret({ tenant: 'other' })).rejects.toMatchObject(
    FORBIDDEN,
  );
  const own = await acme.client.webhooks.rotateSecret();
  expect(own).toMatchObject({ tenant: 'acme', source: 'tenant' });
  expect(await acme.client.webhooks.secret()).toEqual(own);
  expect(await admin.client.webhooks.secret()).toMatchObject({ source: 'server' });
});

test('tenants see themselves in the list of tenants', async () => {
  await admin.client.tenants.set('acme', { weight: 2 });
  await admin.client.tenants.set('*', { concurrency: 100 });
  expect(await acme.client.tenants.list()).toMatchObject([{ tenant: 'acme' }]);
});

test('keys are made, seen and revoked by who manages, with no more scopes than their maker has', async () => {
  const made = await admin.client.keys.create({ name: 'ci', scopes: ['read'], tenant: 'acme' });
  expect(made).toMatchObject({ name: 'ci', scopes: ['read'], tenant: 'acme' });
  const session = await server.request('/v1/session', { headers: as({ ...acme, key: made.key }) });
  expect(SessionResource.parse(await session.json())).toMatchObject({ tenant: 'acme' });
  const listed = await admin.client.keys.list();
  expect(listed).toContainEqual(expect.objectContaining({ id: made.id, tenant: 'acme' }));
  expect(JSON.stringify(listed)).not.toContain(made.key.slice(-43));
  const { key: manager } = await server.services.keys.create('manager', ['manage']);
  const more = clientOf(manager).keys.create({ scopes: ['submit'] });
  await expect(more).rejects.toMatchObject(FORBIDDEN);
  await expect(admin.client.keys.create({ tenant: '*' })).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
  });
  await admin.client.keys.revoke(made.id);
  await admin.client.keys.revoke(made.id);
  await expect(clientOf(made.key).webhooks.ofJob('x')).rejects.toMatchObject({
    code: 'AUTH_REQUIRED',
  });
});

test('a login with a tenant’s key is that tenant’s', async () => {
  const { id } = await other.client.jobs.submit({ serverPath: path });
  const login = await server.post('/v1/session', { key: acme.key });
  expect(SessionResource.parse(await login.json())).toMatchObject({ tenant: 'acme' });
  const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const response = await server.request(`/v1/jobs/${id}`, { headers: { cookie } });
  expect(await codeOf(response)).toBe('JOB_NOT_FOUND');
});
