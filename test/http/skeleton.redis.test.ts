import { afterAll, beforeAll, expect, test } from 'vitest';
import { JobResource } from '../../src/core/api.ts';
import { ProblemDetails } from '../../src/core/problem.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../support/http.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server[Symbol.asyncDispose]());

test('a job of the queue is shown as the interface declares it', async () => {
  const queue = await server.services.queues.queueOf(TEST_MODEL);
  const id = await queue.add({ input: { kind: 'path', path: '/audio/a.wav' } });
  const response = await server.request(`/v1/jobs/${id}`);
  expect(response.status).toBe(200);
  expect(JobResource.parse(await response.json())).toMatchObject({ id, state: 'waiting' });
});

test('what is not there is a problem with a code and the id of the request', async () => {
  const response = await server.request('/v1/jobs/none', { headers: { 'x-request-id': 'abc' } });
  expect(response.status).toBe(404);
  expect(response.headers.get('content-type')).toContain('application/problem+json');
  expect(ProblemDetails.parse(await response.json())).toMatchObject({
    code: 'JOB_NOT_FOUND',
    instance: 'urn:wavepool:request:abc',
  });
});

test('an upload comes back with the hash of its bytes', async () => {
  const response = await server.request('/v1/uploads?name=a.wav', { method: 'POST', body: 'abc' });
  expect(response.status).toBe(201);
  expect(await response.json()).toMatchObject({
    id: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    name: 'a.wav',
    bytes: 3,
  });
});

test('a form carries a file, too', async () => {
  const form = new FormData();
  form.append('file', new Blob(['abc']), 'b.wav');
  const response = await server.request('/v1/uploads', { method: 'POST', body: form });
  expect(await response.json()).toMatchObject({ name: 'b.wav', bytes: 3 });
});
