import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ERROR_CODES } from '../../src/core/errors.ts';
import { ModelList, WorkerList } from '../../src/core/http/api.ts';
import { ProblemDetails } from '../../src/core/http/problem.ts';
import { DOCUMENTED_ROUTES } from '../../src/http/route-table.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { PresencePublisher } from '../../src/queue/fleet/presence.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../support/http.ts';
import { presenceOf } from '../support/presence.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({
    settings: { maxQueued: 2, allowedOrigins: ['https://a.example'] },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

async function problem(response: Response): Promise<ProblemDetails> {
  expect(response.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
  const details = ProblemDetails.parse(await response.json());
  expect(details).toMatchObject({
    status: response.status,
    type: `urn:wavepool:error:${details.code}`,
    instance: `urn:wavepool:request:${response.headers.get('x-request-id')}`,
  });
  return details;
}

describe('a request that is none', () => {
  test('for an address that is not there', async () => {
    expect(await problem(await server.request('/v1/nothing'))).toMatchObject({
      code: 'ROUTE_NOT_FOUND',
    });
  });

  test('with a method that the address does not have', async () => {
    const response = await server.request('/v1/jobs', { method: 'PUT' });
    expect(response.headers.get('allow')).toBe('POST, GET, HEAD, OPTIONS');
    expect(await problem(response)).toMatchObject({ code: 'METHOD_NOT_ALLOWED' });
  });

  test('with a body that is no JSON, too large, or of another type', async () => {
    const send = (body: string, type: string) =>
      server.request('/v1/jobs', { method: 'POST', body, headers: { 'content-type': type } });
    const broken = await problem(await send('{"input":', 'application/json'));
    expect(broken).toMatchObject({ code: 'INVALID_REQUEST' });
    const large = JSON.stringify({ input: { path: 'x'.repeat(1_100_000) } });
    expect(await problem(await send(large, 'application/json'))).toMatchObject({
      code: 'REQUEST_TOO_LARGE',
    });
    expect(await problem(await send('<a/>', 'application/xml'))).toMatchObject({
      code: 'MEDIA_TYPE_UNSUPPORTED',
    });
  });

  test('with a broken escape in its path', async () => {
    expect(await problem(await server.request('/v1/jobs/%zz'))).toMatchObject({
      code: 'INVALID_REQUEST',
    });
  });
});

test('a defect is an internal error that tells nothing about itself', async () => {
  const { results } = server.services;
  const { read } = results;
  results.read = () => Promise.reject(new Error('secret detail'));
  const queue = await server.services.queues.queueOf(TEST_MODEL);
  const { get } = queue;
  queue.get = () => Promise.reject(new Error('secret detail'));
  const id = await queue.add({ input: { kind: 'path', path: '/a.wav' } });
  const details = await problem(await server.request(`/v1/jobs/${id}`));
  expect(details.code).toBe('INTERNAL');
  expect(JSON.stringify(details)).not.toContain('secret');
  results.read = read;
  queue.get = get;
  await queue.cancel(id);
});

test('a full queue says when to come again', async () => {
  const body = { input: { url: 'https://a.example/a.wav' } };
  expect((await server.post('/v1/jobs', body)).status).toBe(202);
  expect((await server.post('/v1/jobs', body)).status).toBe(202);
  const response = await server.post('/v1/jobs', body);
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await problem(response)).toMatchObject({
    code: 'QUEUE_FULL',
    status: 429,
    retryable: true,
  });
});

test('the query of a URL, which may hold a secret, is not shown', async () => {
  const body = { input: { url: 'https://a.example/talk.wav?sig=secret' }, model: 'url-model' };
  const queue = await AudioQueue.open({
    address: server.redis.address,
    model: 'url-model',
  });
  await queue.add({ id: 'seed', input: { kind: 'path', path: '/a.wav' } });
  const response = await server.post('/v1/jobs', body);
  const shown = await response.text();
  expect(shown).not.toContain('secret');
  expect(JSON.parse(shown).input).toEqual({
    kind: 'url',
    name: 'talk.wav',
    url: 'https://a.example/talk.wav',
  });
  await queue.close();
});

test.each([
  ['abc-1', true],
  ['a b\tc', false],
])('the id %j of a caller is taken over when it is harmless: %s', async (id, taken) => {
  const response = await server.request('/v1/nothing', { headers: { 'x-request-id': id } });
  expect(response.headers.get('x-request-id') === id).toBe(taken);
  await problem(response);
});

describe('other origins', () => {
  test('are allowed only when a setting names them', async () => {
    const ask = (origin: string) =>
      server.request('/v1/jobs', { method: 'OPTIONS', headers: { origin } });
    const allowed = await ask('https://a.example');
    expect(allowed.headers.get('access-control-allow-origin')).toBe('https://a.example');
    expect(allowed.headers.get('access-control-allow-credentials')).toBeNull();
    const other = await ask('https://b.example');
    expect(other.headers.get('access-control-allow-origin')).toBeNull();
  });
});

test('answers carry the headers that keep browsers careful', async () => {
  const { headers } = await server.request('/docs');
  expect(headers.get('content-security-policy')).toContain("default-src 'self'");
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('x-powered-by')).toBeNull();
});

describe('the documentation', () => {
  test('is OpenAPI 3.1 and lists exactly the registered routes, with resolvable references', async () => {
    const response = await server.request('/openapi.json');
    const body = await response.text();
    const document = JSON.parse(body);
    expect(document.openapi).toMatch(/^3\.1\./);
    const listed = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(Object(methods)).map((method) => `${method} ${path}`),
    );
    const registered = DOCUMENTED_ROUTES.map(
      ({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`,
    );
    expect(listed.toSorted()).toEqual(registered.toSorted());
    const references = [...body.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)];
    expect(references.length).toBeGreaterThan(10);
    for (const [, id = ''] of references) expect(document.components.schemas).toHaveProperty(id);
    expect(body).not.toContain('#/$defs');
  });

  test('names each operation once', () => {
    const names = DOCUMENTED_ROUTES.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  test('is a page that needs nothing from elsewhere', async () => {
    const page = await (await server.request('/docs')).text();
    for (const { method, path } of DOCUMENTED_ROUTES) {
      const shown = `${method.toUpperCase()} ${path.replace(/:(\w+)/g, '{$1}')}`;
      expect(page).toContain(`<code>${shown}</code>`);
    }
    // JSON alone is shown as it is written.
    expect(page.replaceAll(/<pre>[^<]*<\/pre>/g, '')).not.toContain('`');
    expect(page).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    for (const [, asset = ''] of page.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
      expect((await server.request(asset)).status).toBe(200);
    }
    expect((await server.request('/assets/constructor')).status).toBe(404);
  });

  test('knows only codes of the error table', () => {
    expect(ERROR_CODES).toEqual(
      expect.arrayContaining(DOCUMENTED_ROUTES.flatMap(({ errors = [] }) => [...errors])),
    );
  });
});

test('models and workers are what workers publish and queues hold', async () => {
  const presence = presenceOf({ models: [{ id: 'served', slots: 2, batch: 8 }] });
  const { address } = server.redis;
  await using publisher = new PresencePublisher({ address, snapshot: () => presence });
  await publisher.start();
  const workers = WorkerList.parse(await (await server.request('/v1/workers')).json());
  expect(workers.items).toEqual([presence]);
  const { data } = ModelList.parse(await (await server.request('/v1/models')).json());
  expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining([TEST_MODEL, 'served']));
  expect(data.find(({ id }) => id === 'served')).toMatchObject({ workers: 1, object: 'model' });
  expect(data.find(({ id }) => id === TEST_MODEL)).toMatchObject({ workers: 0, state: 'unserved' });
});

test('metrics tell what waits and what was refused', async () => {
  await server.request('/v1/nothing');
  const response = await server.request('/metrics');
  expect(response.headers.get('content-type')).toContain('text/plain');
  const metrics = await response.text();
  expect(metrics).toMatch(/^wavepool_queue_jobs\{.*state="waiting".*\} [1-9]/m);
  expect(metrics).toMatch(/^wavepool_refusals_total\{code="ROUTE_NOT_FOUND"\} [1-9]/m);
});

test('the process is healthy, and ready while Redis answers', async () => {
  await using own = await startTestServer();
  expect((await own.request('/healthz')).status).toBe(200);
  expect((await own.request('/readyz')).status).toBe(200);
  own.services.queues.connection.disconnect();
  const response = await own.request('/readyz');
  expect(response.headers.get('retry-after')).not.toBeNull();
  expect(await problem(response)).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect((await own.request('/healthz')).status).toBe(200);
});

test('a server that ends lets a request finish and refuses the next one', async () => {
  await using own = await startTestServer();
  const { uploads } = own.services;
  const write = uploads.write.bind(uploads);
  const received = new Promise<void>((resolve) => {
    uploads.write = (...parameters) => {
      resolve();
      return write(...parameters);
    };
  });
  const socket = connect(Number(new URL(own.url).port), '127.0.0.1');
  await once(socket, 'connect');
  const head = 'POST /v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n';
  socket.write(`${head}ab`);
  await received;
  const closed = own.close();
  socket.write('cdeGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const answers = await text(socket);
  expect(answers).toContain('HTTP/1.1 201');
  expect(answers).toContain('HTTP/1.1 503');
  await closed;
  await expect(own.request('/healthz')).rejects.toThrow();
});
