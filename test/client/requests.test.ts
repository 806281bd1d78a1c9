import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import { InvalidRequestError } from '../../src/core/http/problem.ts';
import { temporaryFolder } from '../support/redis.ts';
import { jobResource, UPLOAD_ID, uploadResource } from './answers.ts';
import { type Answer, hangUp, json, problem, scriptedServer, silence } from './scripted-server.ts';

describe('what the client sends', () => {
  test('a job with its settings, its key and an idempotency key of its own', async () => {
    await using server = await scriptedServer([json(jobResource('a')), json(jobResource('b'))]);
    const { jobs } = server.client({ apiKey: 'secret', headers: { 'x-request-id': 'r' } });
    await jobs.submit({ serverPath: '/audio/a.wav', model: 'test-model', priority: 1 });
    await jobs.submit({ url: 'https://example.com/a.wav' }, { idempotencyKey: 'mine' });
    const [first, second] = server.seen;
    expect(first).toMatchObject({
      method: 'POST',
      url: '/v1/jobs',
      headers: {
        authorization: 'Bearer secret',
        'x-request-id': 'r',
        'content-type': 'application/json',
        'idempotency-key': expect.stringMatching(/^[0-9a-f-]{36}$/),
      },
    });
    expect(JSON.parse(first?.body ?? '')).toEqual({
      input: { path: '/audio/a.wav' },
      model: 'test-model',
      priority: 1,
    });
    expect(second?.headers['idempotency-key']).toBe('mine');
    expect(JSON.parse(second?.body ?? '')).toEqual({ input: { url: 'https://example.com/a.wav' } });
  });

  test('the bytes of a file, whatever it is given as, and then the job that uses them', async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, 'köln #1 %20?.wav');
    await writeFile(path, 'abc');
    const bytes = new TextEncoder().encode('abc');
    const sources = [
      { file: path, name: 'köln #1 %20?.wav' },
      { file: pathToFileURL(path), name: 'köln #1 %20?.wav' },
      { file: bytes, name: null },
      { file: new Blob([bytes]), name: null },
      { file: new File([bytes], 'f.wav'), name: 'f.wav' },
      { file: Readable.from([bytes]), name: null },
      { file: new Blob([bytes]).stream(), name: null },
    ];
    for (const { file, name } of sources) {
      await using server = await scriptedServer([
        json(uploadResource('told.wav'), 201),
        json(jobResource('a'), 202),
      ]);
      await server.client().jobs.submit({ file });
      const [upload, job] = server.seen;
      expect(upload).toMatchObject({ method: 'POST', body: 'abc' });
      expect(upload?.headers['content-type']).toBe('application/octet-stream');
      expect(new URL(upload?.url ?? '', server.url).searchParams.get('name')).toBe(name);
      const input = { uploadId: UPLOAD_ID, name: 'told.wav' };
      expect(JSON.parse(job?.body ?? '')).toEqual({ input });
    }
  });

  test('paths below the path of a proxy, with ids that are encoded', async () => {
    await using server = await scriptedServer([
      json({ id: 'a', result: 'finished', purged: true }),
    ]);
    const { jobs } = server.client({ baseUrl: `${server.url}/speech?x=1` });
    await jobs.cancel('../a b', { purge: true });
    expect(server.seen[0]).toMatchObject({
      method: 'DELETE',
      url: '/speech/v1/jobs/..%2Fa%20b?purge=true',
    });
  });

  test('nothing to an address or with a key that cannot be right', () => {
    expect(() => new WavepoolClient({ baseUrl: 'ftp://example.com' })).toThrow('not an http');
    const wrongKey = { baseUrl: 'http://127.0.0.1', apiKey: 'se\ncret' };
    expect(() => new WavepoolClient(wrongKey)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('cret') }),
    );
  });

  test('nothing when there is no such file', async () => {
    await using folder = await temporaryFolder();
    await using server = await scriptedServer([]);
    const { uploads } = server.client();
    const notFound = { code: 'INPUT_NOT_FOUND' };
    await expect(uploads.create(join(folder.path, 'none.wav'))).rejects.toMatchObject(notFound);
    await expect(uploads.create(folder.path)).rejects.toMatchObject(notFound);
    expect(server.seen).toEqual([]);
  });
});

describe('what the client makes of answers', () => {
  test('members that it does not know yet are left out', async () => {
    const newer = { ...jobResource('a'), mood: 'good' };
    const links = { ...newer.links, mood: '/mood' };
    await using server = await scriptedServer([json({ ...newer, links })]);
    expect(await server.client().jobs.get('a')).toEqual(jobResource('a'));
  });

  test('all pages are one list, each asked for when it is needed', async () => {
    const page = (ids: string[], nextCursor: string | null): Answer =>
      json({ items: ids.map((id) => jobResource(id)), nextCursor });
    await using server = await scriptedServer([
      page(['a', 'b'], 'p2'),
      page([], 'p3'),
      page(['c'], null),
    ]);
    const ids: string[] = [];
    for await (const { id } of server.client().jobs.list({ state: 'waiting', pageSize: 2 })) {
      if (id === 'b') expect(server.seen).toHaveLength(1);
      ids.push(id);
    }
    expect(ids).toEqual(['a', 'b', 'c']);
    expect(server.seen.map(({ url }) => url)).toEqual([
      '/v1/jobs?state=waiting&limit=2',
      '/v1/jobs?state=waiting&cursor=p2&limit=2',
      '/v1/jobs?state=waiting&cursor=p3&limit=2',
    ]);
  });

  test('a problem is an error with its code, its detail and the id of the request', async () => {
    await using server = await scriptedServer([
      problem(409, 'JOB_NOT_FINISHED', 'the job has not completed: it is waiting'),
    ]);
    await expect(server.client().jobs.result('a', 'txt')).rejects.toMatchObject({
      name: 'WavepoolError',
      code: 'JOB_NOT_FINISHED',
      detail: 'it is waiting',
      message: 'the job has not completed: it is waiting',
      cause: { instance: 'urn:wavepool:request:abc' },
    });
  });

  test('a refused request names its fields', async () => {
    const errors = [{ path: 'priority', message: 'Too small' }];
    const body = { detail: 'body: priority: Too small', code: 'INVALID_REQUEST', errors };
    const rest = { type: 't', title: 't', status: 400, instance: 'i', retryable: false };
    await using server = await scriptedServer([json({ ...rest, ...body }, 400)]);
    const failure = await server
      .client()
      .jobs.submit({ uploadId: UPLOAD_ID, priority: -1 })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(InvalidRequestError);
    expect(failure).toMatchObject({ fields: errors, message: 'body: priority: Too small' });
  });

  test('a code that it does not know is internal, and the text is kept', async () => {
    await using server = await scriptedServer([problem(418, 'TEAPOT_EMPTY', 'no more tea')]);
    await expect(server.client().models.list()).rejects.toMatchObject({
      code: 'INTERNAL',
      detail: 'TEAPOT_EMPTY: no more tea',
    });
  });

  test('what is no problem and no answer is an error, too', async () => {
    const page: Answer = (res) => void res.writeHead(200).end('<h1>Welcome</h1>');
    const denied: Answer = (res) => void res.writeHead(401).end('<h1>Who are you?</h1>');
    await using server = await scriptedServer([page, denied, json({ items: 1 })]);
    const { workers } = server.client();
    await expect(workers.list()).rejects.toMatchObject({ code: 'INTERNAL' });
    await expect(workers.list()).rejects.toMatchObject({ code: 'AUTH_REQUIRED' });
    await expect(workers.list()).rejects.toMatchObject({ code: 'INTERNAL' });
  });

  test('a job that is not there is undefined', async () => {
    await using server = await scriptedServer([problem(404, 'JOB_NOT_FOUND', 'no such job: a')]);
    expect(await server.client().jobs.get('a')).toBeUndefined();
  });
});

describe('what is sent again', () => {
  const full = problem(429, 'QUEUE_FULL', 'the queue is full', { 'retry-after': '5' });
  const fullForAges = problem(429, 'QUEUE_FULL', 'the queue is full', { 'retry-after': '3600' });
  const away = problem(503, 'REDIS_UNAVAILABLE', 'Redis cannot be reached: x');

  test('a job, under the same idempotency key, when the server says so', async () => {
    await using server = await scriptedServer([full, hangUp, away, json(jobResource('a'))]);
    await server.client().jobs.submit({ uploadId: UPLOAD_ID });
    expect(server.pauses).toEqual([5_000, 1_000, 2_000]);
    expect(new Set(server.seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
  });

  test('nothing for ever', async () => {
    await using server = await scriptedServer([hangUp, hangUp, hangUp]);
    const { models } = server.client({ maxRetries: 2 });
    await expect(models.list()).rejects.toMatchObject({ code: 'SERVER_UNREACHABLE' });
    expect(server.pauses).toEqual([500, 1_000]);
  });

  test('nothing that would wait for longer than anybody would', async () => {
    await using server = await scriptedServer([fullForAges]);
    await expect(server.client().models.list()).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  });

  test('nothing that was refused for good, even with a status that says otherwise', async () => {
    await using server = await scriptedServer([
      problem(503, 'REDIS_UNSUITABLE', 'no', { 'retry-after': '1' }),
    ]);
    await expect(server.client().models.list()).rejects.toMatchObject({ code: 'REDIS_UNSUITABLE' });
  });

  test('the retry of a job only when the server did nothing', async () => {
    await using server = await scriptedServer([full, hangUp]);
    await expect(server.client().jobs.retry('a')).rejects.toMatchObject({
      code: 'SERVER_UNREACHABLE',
    });
    expect(server.seen).toHaveLength(2);
  });

  test('the bytes of a file, from the beginning, but not those of a stream', async () => {
    await using server = await scriptedServer([away, json(uploadResource('a'), 201), away]);
    const { uploads } = server.client();
    await uploads.create(new Blob(['abc']));
    expect(server.seen.map(({ body }) => body)).toEqual(['abc', 'abc']);
    await expect(uploads.create(new Blob(['abc']).stream())).rejects.toMatchObject({
      code: 'REDIS_UNAVAILABLE',
    });
  });

  test('nothing once the caller has had enough', async () => {
    const enough = new AbortController();
    const reason = new Error('enough');
    await using server = await scriptedServer([
      (res, req) => {
        enough.abort(reason);
        hangUp(res, req);
      },
    ]);
    const { models } = server.client();
    await expect(models.list({ signal: enough.signal })).rejects.toBe(reason);
    await expect(models.list({ signal: enough.signal })).rejects.toBe(reason);
    expect(server.seen).toHaveLength(1);
  });
});

test('an answer that does not come in time is given up', async () => {
  await using server = await scriptedServer([silence], 10);
  const { models } = server.client({ timeoutMs: 10, maxRetries: 0 });
  await expect(models.list()).rejects.toMatchObject({
    code: 'SERVER_UNREACHABLE',
    detail: 'no answer within 10 ms',
  });
});

test('a stream that fails while it is sent fails the upload with its own error', async () => {
  await using server = await scriptedServer([]);
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(new TextEncoder().encode('abc'));
    throw new Error('the microphone is gone');
  }
  await expect(server.client().uploads.create(broken())).rejects.toThrow('the microphone is gone');
});
