import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { JobResource, SessionResource } from '../../../src/core/http/api.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { startWorker } from '../../support/worker.ts';

const BOARD = '/dashboard/queues';
const LISTING = `${BOARD}/api/queues?activeQueue=${TEST_MODEL}&status=failed&page=1&jobsPerPage=10`;

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({ settings: { queuesReadOnly: false } });
});
afterAll(() => server[Symbol.asyncDispose]());

async function failOne(path: string): Promise<string> {
  const queue = await server.services.queues.queueOf(TEST_MODEL);
  await using _worker = startWorker(server.redis.address, TEST_MODEL, () => {
    throw new WavepoolError('INPUT_UNDECODABLE', `${path}: no audio`);
  });
  const id = await queue.add({ input: { kind: 'path', path }, attempts: 1 });
  await queue.waitFor(id).catch(() => undefined);
  return id;
}

/** Who logs in with a key of these scopes sends these headers. */
async function logIn(scopes: ('read' | 'submit' | 'manage')[]) {
  const { key } = await server.services.keys.create('test', scopes);
  const response = await server.post('/v1/session', { key });
  const { csrfToken } = SessionResource.parse(await response.json());
  const cookie = response.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  return { cookie, csrfToken: String(csrfToken) };
}

test('jobs are listed with their reasons, but without folders and stack traces', async () => {
  const id = await failOne('/secret/folder/broken.wav');
  const response = await server.request(LISTING);
  const text = await response.text();
  expect(text).toContain(id);
  expect(text).toContain('broken.wav');
  expect(text).toContain('INPUT_UNDECODABLE');
  expect(text).not.toContain('/secret');
  expect(text).not.toContain('    at ');
});

test('queues appear when their models do', async () => {
  const list = async () => (await server.request(`${BOARD}/api/queues`)).text();
  expect(await list()).not.toContain('"newcomer"');
  await using queue = await AudioQueue.open({ address: server.redis.address, model: 'newcomer' });
  await queue.add({ input: { kind: 'path', path: '/a.wav' } });
  expect(await list()).toContain('"newcomer"');
});

test('a retry from there is one of ours: the job starts with all its attempts', async () => {
  const id = await failOne('/audio/again.wav');
  const address = `${BOARD}/api/queues/${TEST_MODEL}/${id}/retry`;
  expect((await server.request(address, { method: 'PUT' })).status).toBe(204);
  const { state, attempts } = JobResource.parse(
    await (await server.request(`/v1/jobs/${id}`)).json(),
  );
  expect({ state, attempts }).toEqual({ state: 'waiting', attempts: 0 });
});

test('nobody adds or rewrites jobs behind the back of the interface', async () => {
  const queue = await server.services.queues.queueOf(TEST_MODEL);
  const id = await queue.add({ input: { kind: 'path', path: '/a.wav' } });
  const send = (method: string, path: string, body: unknown) =>
    server.request(`${BOARD}/api/queues/${TEST_MODEL}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const data = { input: { kind: 'path', path: '/etc/passwd' } };
  expect((await send('POST', '/add', { name: 'x', data, options: {} })).status).toBe(403);
  expect((await send('PATCH', `/${id}/update-data`, { jobData: data })).status).toBe(403);
  expect((await send('PUT', '/obliterate', { force: true })).status).toBe(403);
  expect((await queue.get(id))?.data.input).toMatchObject({ path: '/a.wav' });
});

test('by default nothing can be changed at all', async () => {
  await using watching = await startTestServer();
  const queue = await watching.services.queues.queueOf(TEST_MODEL);
  await queue.add({ input: { kind: 'path', path: '/a.wav' } });
  await watching.request(`${BOARD}/api/queues`);
  const address = `${BOARD}/api/queues/${TEST_MODEL}/pause`;
  expect((await watching.request(address, { method: 'PUT' })).status).toBe(405);
});

test('its page sends visitors to the login, and takes changes from managers with a token only', async () => {
  const reader = await logIn(['read']);
  const manager = await logIn(['read', 'manage']);
  const page = await server.request(BOARD, { redirect: 'manual' });
  expect(page.headers.get('location')).toBe(`/login?next=${encodeURIComponent(BOARD)}`);
  expect((await server.request(`${BOARD}/api/queues`)).status).toBe(401);
  const pause = async ({ cookie, csrfToken }: typeof reader) => {
    const headers = { cookie, 'x-csrf-token': csrfToken };
    const address = `${BOARD}/api/queues/${TEST_MODEL}/pause`;
    return (await server.request(address, { method: 'PUT', headers })).status;
  };
  const { cookie } = reader;
  expect((await server.request(`${BOARD}/api/queues`, { headers: { cookie } })).status).toBe(200);
  expect(await pause(reader)).toBe(403);
  expect(await pause({ ...manager, csrfToken: '' })).toBe(403);
  expect(await pause(manager)).toBe(200);
});
