import { mkdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import {
  BatchItemPage,
  BatchPageResource,
  BatchResource,
  BatchResultLine,
  BatchRetryResource,
  BatchSubmission,
} from '../../../src/core/http/batch-api.ts';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { createLogger } from '../../../src/core/logger.ts';
import { Housekeeping } from '../../../src/worker/housekeeping/housekeeping.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import { temporaryFolder } from '../../support/redis.ts';
import { transcriptOf } from '../../support/transcript.ts';
import { openWorker } from '../../support/worker.ts';
import { readZip } from '../../support/zip.ts';

let inputs: Awaited<ReturnType<typeof temporaryFolder>>;
let root: string;
let server: TestServer;
let housekeeping: Housekeeping;
beforeAll(async () => {
  inputs = await temporaryFolder();
  root = join(await realpath(inputs.path), 'in');
  await mkdir(root);
  server = await startTestServer({ settings: { inputRoots: [root], maxQueued: 300 } });
  housekeeping = await Housekeeping.start({
    address: server.redis.address,
    logger: createLogger('silent', 'test'),
  });
});
afterAll(async () => {
  await housekeeping.close();
  await server[Symbol.asyncDispose]();
  await inputs[Symbol.asyncDispose]();
});

async function writeAudio(...names: string[]): Promise<void> {
  for (const name of names) {
    await mkdir(join(root, name, '..'), { recursive: true });
    await writeFile(join(root, name), 'audio');
  }
}

/** Commits a transcript for each job; inputs called `bad…` fail. */
function transcribe(): AsyncDisposable {
  return openWorker(server.redis.address, TEST_MODEL, async ({ id = '', data }) => {
    const path = data.input.kind === 'path' ? data.input.path : 'none';
    const name = path.split('/').at(-1) ?? '';
    if (name.startsWith('bad')) throw new WavepoolError('INPUT_UNDECODABLE', name);
    const transcript = transcriptOf(id, `text of ${name}`);
    await server.services.results.commit(id, { ...transcript, input: { name, path } });
    return server.services.results.keyOf(id);
  });
}

async function json<Schema extends { parse(raw: unknown): unknown }>(
  response: Response,
  schema: Schema,
): Promise<ReturnType<Schema['parse']>> {
  // What a schema parses is of the type that it declares.
  return schema.parse(await response.json()) as ReturnType<Schema['parse']>;
}

async function stateOf(id: string): Promise<BatchResource> {
  return json(await server.request(`/v1/batches/${id}`), BatchResource);
}

function ended(id: string): Promise<unknown> {
  return expect
    .poll(async () => (await stateOf(id)).finishedAt, { timeout: 10_000 })
    .not.toBeNull();
}

async function linesOf(response: Response): Promise<BatchResultLine[]> {
  const text = await response.text();
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line) => BatchResultLine.parse(JSON.parse(line)));
}

test('a list of inputs becomes a batch that is watched, read and retried', async () => {
  await writeAudio('list/a.wav', 'list/bad.wav', 'list/c.wav');
  const paths = ['a', 'bad', 'c'].map((name) => ({ path: join(root, `list/${name}.wav`) }));
  const response = await server.post('/v1/batches', { name: 'List', inputs: paths });
  expect(response.status).toBe(202);
  const { id, links, ...batch } = await json(response, BatchSubmission);
  expect(response.headers.get('location')).toBe(links.self);
  expect(batch).toMatchObject({
    name: 'List',
    state: 'running',
    counts: { total: 3, waiting: 3 },
    finishedAt: null,
  });
  {
    await using _ = transcribe();
    await ended(id);
  }
  expect(await stateOf(id)).toMatchObject({
    state: 'completed',
    counts: { completed: 2, failed: 1 },
  });
  const items = await json(await server.request(`${links.items}?state=failed`), BatchItemPage);
  expect(items.items).toMatchObject([
    { index: 1, input: { name: 'bad.wav' }, failure: { code: 'INPUT_UNDECODABLE' } },
  ]);
  expect(await linesOf(await server.request(links.results))).toMatchObject([
    { index: 0, state: 'completed', name: 'a.wav', text: 'text of a.wav\n' },
    { index: 1, state: 'failed', name: 'bad.wav', failure: { code: 'INPUT_UNDECODABLE' } },
    { index: 2, state: 'completed', name: 'c.wav', text: 'text of c.wav\n' },
  ]);
  const retry = await server.request(`${links.self}/retry`, { method: 'POST' });
  expect(await json(retry, BatchRetryResource)).toMatchObject({
    retried: 1,
    batch: { state: 'running', counts: { waiting: 1, completed: 2 } },
  });
  const cancelled = await server.request(links.self, { method: 'DELETE' });
  expect(cancelled.status).toBe(200);
  expect(await json(cancelled, BatchResource)).toMatchObject({
    state: 'cancelled',
    counts: { completed: 2, cancelled: 1, failed: 0 },
  });
});

test('lines are inputs, after settings when the first one says so', async () => {
  await writeAudio('lines/a.wav');
  const input = JSON.stringify({ path: join(root, 'lines/a.wav') });
  const body = `{"batch":{"name":"Lines","priority":7}}\n${input}\n\n${input}\r\n${input}`;
  const headers = { 'content-type': 'application/x-ndjson' };
  const response = await server.request('/v1/batches', { method: 'POST', headers, body });
  expect(response.status).toBe(202);
  const batch = await json(response, BatchSubmission);
  expect(batch).toMatchObject({ name: 'Lines', counts: { total: 3 } });
  const bare = await server.request('/v1/batches', { method: 'POST', headers, body: input });
  expect(await json(bare, BatchSubmission)).toMatchObject({ name: null, counts: { total: 1 } });
  const page = await server.services.batches.items(batch.id, { limit: 1 });
  expect(page.items[0]?.job?.priority).toBe(7);
});

test('a line that is wrong is named, and nothing of its batch runs', async () => {
  await writeAudio('wrong/a.wav');
  const input = JSON.stringify({ path: join(root, 'wrong/a.wav') });
  const body = `${`${input}\n`.repeat(250)}{"path":"relative","url":"x"}\n`;
  const headers = { 'content-type': 'application/x-ndjson' };
  const response = await server.request('/v1/batches', { method: 'POST', headers, body });
  expect(response.status).toBe(400);
  const problem = await json(response, ProblemDetails);
  expect(problem.detail).toContain('line 251');
  const { items } = await json(await server.request('/v1/batches?limit=1'), BatchPageResource);
  expect(items).toMatchObject([{ state: 'cancelled', counts: { total: 200, cancelled: 200 } }]);
});

test('a batch whose client goes away half-way is cancelled: nobody can go on with it', async () => {
  await writeAudio('gone/a.wav');
  const line = `${JSON.stringify({ path: join(root, 'gone/a.wav') })}\n`;
  const leaving = new AbortController();
  const chunks = [`{"batch":{"name":"Gone"}}\n`, line.repeat(150)];
  const body = new ReadableStream({
    pull: (controller) => {
      const chunk = chunks.shift();
      // There is no end: the client waits with the rest until it goes.
      if (chunk !== undefined) controller.enqueue(new TextEncoder().encode(chunk));
    },
  });
  const headers = { 'content-type': 'application/x-ndjson' };
  const { signal } = leaving;
  const init = { method: 'POST', headers, body, duplex: 'half' as const, signal };
  const sent = server.request('/v1/batches', init);
  const gone = async (): Promise<BatchResource | undefined> => {
    const page = await json(await server.request('/v1/batches?limit=5'), BatchPageResource);
    return page.items.find(({ name }) => name === 'Gone');
  };
  await expect.poll(async () => (await gone())?.counts.total).toBe(100);
  leaving.abort();
  await expect(sent).rejects.toThrow();
  await expect.poll(gone).toMatchObject({ state: 'cancelled', counts: { cancelled: 100 } });
});

test('a request with its key goes on after the queue was full, and another one under it is refused', async () => {
  await writeAudio('full/a.wav');
  const line = JSON.stringify({ path: join(root, 'full/a.wav') });
  const send = (name: string): Promise<Response> =>
    server.request('/v1/batches', {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': 'full' },
      body: `{"batch":{"name":"${name}"}}\n${`${line}\n`.repeat(350)}`,
    });
  const refused = await send('F');
  expect(refused.status).toBe(429);
  expect(refused.headers.get('retry-after')).not.toBeNull();
  const list = await json(await server.request('/v1/batches?state=open'), BatchPageResource);
  const [open] = list.items;
  expect(open?.counts.total).toBeGreaterThan(0);
  await using _ = transcribe();
  await expect
    .poll(async () => (await stateOf(open?.id ?? '')).counts.waiting, { timeout: 20_000 })
    .toBe(0);
  const accepted = await send('F');
  expect(accepted.status).toBe(202);
  const batch = await json(accepted, BatchSubmission);
  expect(batch).toMatchObject({ id: open?.id, counts: { total: 350 } });
  expect((await send('G')).status).toBe(409);
  await ended(batch.id);
  expect((await stateOf(batch.id)).counts).toMatchObject({ completed: 350 });
}, 60_000);

test('a directory is a batch of all it holds, inside the roots', async () => {
  await writeAudio('tree/a.wav', 'tree/sub/a.mp3', 'tree/sub/a.wav');
  await writeFile(join(root, 'tree/notes.md'), 'words');
  await writeFile(join(inputs.path, 'secret.wav'), 'audio');
  await symlink(join(inputs.path, 'secret.wav'), join(root, 'tree/link.wav'));
  const response = await server.post('/v1/batches', { directory: join(root, 'tree') });
  const batch = await json(response, BatchSubmission);
  expect(batch).toMatchObject({ counts: { total: 3 }, skipped: 1, unreadable: 1 });
  for (const directory of ['/etc', inputs.path, join(root, '../in/../secret')]) {
    const outside = await server.post('/v1/batches', { directory });
    expect(outside.status).toBe(403);
  }
  await using _ = transcribe();
  await ended(batch.id);
  expect(await unzip(await server.request(`${batch.links.results}?format=zip`))).toEqual([
    ['a.txt', 'text of a.wav\n'],
    ['sub/a.txt', 'text of a.mp3\n'],
    ['sub/a.wav.txt', 'text of a.wav\n'],
  ]);
});

test('names in an archive stay inside it, one for each file', async () => {
  const { batches, results } = server.services;
  const names = [
    '/x/cafe\u0301.wav',
    '/y/caf\u00e9.wav',
    '/z/CAF\u00c9.wav',
    '/x/..',
    '/x/a\\..\\b.wav',
  ];
  const { id } = await batches.create({
    model: TEST_MODEL,
    jobs: names.map((path) => ({ input: { kind: 'path', path } })),
  });
  {
    await using _ = openWorker(server.redis.address, TEST_MODEL, async (job) => {
      const { id: jobId = '', data } = job;
      const path = data.input.kind === 'path' ? data.input.path : '';
      const transcript = transcriptOf(jobId, path);
      const name = path.slice(3);
      await results.commit(jobId, { ...transcript, input: { name, path } });
      return results.keyOf(jobId);
    });
    await ended(id);
  }
  const response = await server.request(`/v1/batches/${id}/results?format=zip&as=txt`);
  const files = await unzip(response);
  expect(files.map(([name]) => name)).toEqual(
    [
      'audio.txt',
      'a_.._b.txt',
      'caf\u00e9.txt',
      'caf\u00e9.wav.txt',
      'CAF\u00c9.wav~2.txt',
    ].toSorted(),
  );
});

test('what is not there or not right is a problem with its code', async () => {
  expect((await server.request('/v1/batches/none')).status).toBe(404);
  expect((await server.request('/v1/batches/none/results')).status).toBe(404);
  expect((await server.post('/v1/batches', {})).status).toBe(400);
  expect((await server.post('/v1/batches', { inputs: [{ path: '/etc/passwd' }] })).status).toBe(
    403,
  );
  expect((await server.request('/v1/batches?cursor=abc')).status).toBe(400);
  const unknown = await server.post('/v1/batches', { model: 'nope', inputs: [{}] });
  expect(unknown.status).toBe(404);
});

test('batches are listed page by page', async () => {
  const ids: string[] = [];
  for (const tenant of ['pager', 'other', 'pager', 'pager']) {
    const { id } = await server.services.batches.create({ tenant, model: TEST_MODEL, jobs: [] });
    if (tenant === 'pager') ids.unshift(id);
  }
  const path = '/v1/batches?tenant=pager&limit=2';
  const first = await json(await server.request(path), BatchPageResource);
  const more = await server.request(`${path}&cursor=${first.nextCursor}`);
  const second = await json(more, BatchPageResource);
  const listed = [...first.items, ...second.items].map(({ id }) => id);
  expect(listed.toSorted()).toEqual(ids.toSorted());
  expect(second.nextCursor).toBeNull();
});

/** Names and contents, in the order of the names. */
async function unzip(response: Response): Promise<[string, string][]> {
  expect(response.headers.get('content-type')).toBe('application/zip');
  return [...readZip(Buffer.from(await response.arrayBuffer()))].toSorted();
}
