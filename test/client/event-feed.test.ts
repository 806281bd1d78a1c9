import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import type { ServiceEvent } from '../../src/core/http/events.ts';
import { jobResource } from './answers.ts';
import { type Answer, events, hangUp, json, problem, scriptedServer } from './scripted-server.ts';

const AT = '2026-01-01T00:00:00.000Z';
const ABOUT = { at: AT, model: 'test-model', jobId: 'a' };
const OUTCOME = {
  durationSeconds: 1,
  speechSeconds: 1,
  segments: 1,
  characters: 5,
  noSpeech: false,
  warnings: [],
  timings: { queuedMs: 1, decodeMs: 1, vadMs: 1, asrMs: 1, totalMs: 4 },
};

function message(event: { type: string; [member: string]: unknown }, id?: string): string {
  const lines = [`event: ${event.type}`, `data: ${JSON.stringify(event)}`];
  return `${[...(id === undefined ? [] : [`id: ${id}`]), ...lines].join('\n')}\n\n`;
}

const snapshot = message({ type: 'job.snapshot', job: jobResource('a') }, '1');
const running = message({ type: 'job.running', ...ABOUT }, '2');
const completed = message({ type: 'job.completed', ...ABOUT, outcome: OUTCOME }, '3');
const failed = (code: string): string => {
  const failure = { code, message: 'cannot decode the input: a.wav', type: 't', retryable: false };
  return message({ type: 'job.failed', ...ABOUT, failure }, '3');
};

async function typesOf(feed: AsyncIterable<ServiceEvent>): Promise<string[]> {
  const types: string[] = [];
  for await (const { type } of feed) types.push(type);
  return types;
}

test('a broken stream goes on where it was, as often as it takes, until the job has ended', async () => {
  await using server = await scriptedServer([
    events(['retry: 40\n\n', snapshot, running.slice(0, 20)]),
    events([':heartbeat\n\n', running]),
    hangUp,
    problem(503, 'SHUTTING_DOWN', 'shutting down: x', { 'retry-after': '3' }),
    events([completed], { end: false }),
  ]);
  const feed = server.client().jobs.events('a');
  expect(await typesOf(feed)).toEqual(['job.snapshot', 'job.running', 'job.completed']);
  expect(server.seen.map(({ headers }) => headers['last-event-id'])).toEqual([
    undefined,
    ...['1', '2', '2', '2'],
  ]);
  expect(server.seen[0]).toMatchObject({ url: '/v1/jobs/a/events', method: 'GET' });
  expect(server.pauses).toEqual([40, 40, 80, 3_000]);
  expect(feed.lastEventId).toBe('3');
});

test('a place without an event is one to go on from, too', async () => {
  await using server = await scriptedServer([
    events([': heartbeat\nid: 7\n\n']),
    events([completed]),
  ]);
  await server.client().jobs.waitFor('a');
  expect(server.seen[1]?.headers['last-event-id']).toBe('7');
});

test('a stream may begin where an earlier one was, with a filter', async () => {
  await using server = await scriptedServer([events([running, running])]);
  const filter = { models: ['a', 'b'], tenant: 'me', types: ['job.*'] };
  for await (const event of server.client().events(filter, { lastEventId: 'x;y' })) {
    expect(event).toEqual({ type: 'job.running', ...ABOUT });
    break;
  }
  expect(server.seen[0]).toMatchObject({
    url: '/v1/events?model=a%2Cb&tenant=me&types=job.*',
    headers: { 'last-event-id': 'x;y' },
  });
});

test('the server says that there is no more, or refuses: nothing is asked for again', async () => {
  const over: Answer = (res) => void res.writeHead(204).end();
  const forbidden = problem(403, 'FORBIDDEN', 'not allowed: the scope read is needed');
  await using server = await scriptedServer([over, forbidden, json({})]);
  const { jobs } = server.client();
  expect(await typesOf(jobs.events('a', { lastEventId: '3' }))).toEqual([]);
  await expect(typesOf(jobs.events('a'))).rejects.toMatchObject({ code: 'FORBIDDEN' });
  await expect(typesOf(jobs.events('a'))).rejects.toMatchObject({ code: 'INTERNAL' });
  expect(server.seen).toHaveLength(3);
});

test('a server that stays away is given up', async () => {
  await using server = await scriptedServer(Array.from({ length: 100 }, () => hangUp));
  await expect(typesOf(server.client().events())).rejects.toMatchObject({
    code: 'SERVER_UNREACHABLE',
  });
  const waited = server.pauses.reduce((sum, ms) => sum + ms, 0);
  expect(waited).toBeGreaterThanOrEqual(300_000);
  expect(Math.max(...server.pauses)).toBe(8_000);
});

test('a silent connection is taken for dead', async () => {
  const silent = events([snapshot], { end: false });
  await using server = await scriptedServer([silent, events([completed])], 60_000);
  const types: string[] = [];
  for await (const { type } of server.client().jobs.events('a')) {
    types.push(type);
    if (type === 'job.snapshot') server.expire();
  }
  expect(types).toEqual(['job.snapshot', 'job.completed']);
});

test('leaving the loop closes the connection', async () => {
  let response: ServerResponse | undefined;
  await using server = await scriptedServer([
    (res, req) => {
      response = res;
      events([snapshot], { end: false })(res, req);
    },
  ]);
  for await (const { type } of server.client().jobs.events('a')) {
    expect(type).toBe('job.snapshot');
    break;
  }
  if (response?.destroyed === false) await once(response, 'close');
  expect(response?.writableFinished).toBe(false);
});

test('waiting ends with the outcome, the failure or the reason of the caller', async () => {
  const enough = new AbortController();
  const reason = new Error('enough');
  await using server = await scriptedServer([
    events([snapshot, completed]),
    events([failed('INPUT_UNDECODABLE')]),
    events([failed('TOO_BORING')]),
    events([message({ type: 'job.removed', ...ABOUT })]),
    (res, req) => {
      events([snapshot], { end: false })(res, req);
      enough.abort(reason);
    },
  ]);
  const { jobs } = server.client();
  expect(await jobs.waitFor('a')).toEqual(OUTCOME);
  const undecodable = { code: 'INPUT_UNDECODABLE', detail: 'a.wav' };
  await expect(jobs.waitFor('a')).rejects.toMatchObject(undecodable);
  const unknown = { code: 'INTERNAL', detail: 'TOO_BORING: cannot decode the input: a.wav' };
  await expect(jobs.waitFor('a')).rejects.toMatchObject(unknown);
  await expect(jobs.waitFor('a')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
  await expect(jobs.waitFor('a', { signal: enough.signal })).rejects.toBe(reason);
});

test('events that it does not know yet are left out, and so are their new members', async () => {
  await using server = await scriptedServer([
    events([
      message({ type: 'job.dreaming', ...ABOUT }),
      message({ type: 'job.running', ...ABOUT, mood: 'good' }),
      message({ type: 'job.completed', ...ABOUT, outcome: { ...OUTCOME, mood: 'good' } }),
    ]),
  ]);
  const told: ServiceEvent[] = [];
  for await (const event of server.client().jobs.events('a')) told.push(event);
  expect(told).toEqual([
    { type: 'job.running', ...ABOUT },
    { type: 'job.completed', ...ABOUT, outcome: OUTCOME },
  ]);
});
