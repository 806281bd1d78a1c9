/** Whatever is sent as a job, a batch or a path of the interface, the answer is typed, and nothing outside is reached. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ERROR_CODES, WavepoolError } from '../../src/core/errors.ts';
import { ProblemDetails } from '../../src/core/http/problem.ts';
import { parseJobData, parseJobId, parseModelId, parseNewJob } from '../../src/core/job/job.ts';
import { ArchiveNames } from '../../src/http/resources/archive-names.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { uploadPath } from '../../src/storage/local-uploads.ts';
import { startTestServer, type TestServer } from '../support/http.ts';
import { mutate, randomFrom } from '../support/json-mutator.ts';
import { temporaryFolder } from '../support/redis.ts';

/** `npm run fuzz` sets more rounds, and another seed each time. */
const { WAVEPOOL_FUZZ_ROUNDS, WAVEPOOL_FUZZ_SEED } = process.env;
const ROUNDS = Number(WAVEPOOL_FUZZ_ROUNDS ?? 2_000);
// Against hanging, not against slow machines.
vi.setConfig({ testTimeout: 60_000 + 10 * ROUNDS });
const SEED = Number(WAVEPOOL_FUZZ_SEED ?? 1);

const RAW = { codec: 'mulaw', sampleRate: 8_000, channels: 1 };
const VAD = { threshold: 0.5, minSilenceMs: 400, padMs: 200 };
const OPTIONS = { language: 'en', words: true, channels: 'split', speakers: ['a'], vad: VAD };
const CLOCKS = { busyTimeoutMs: 1, timeoutMs: 1, deadlineAt: 1 };
const REQUEST = { clocks: CLOCKS, tenant: 't', partials: true, runId: 'r' };
const PATH = { kind: 'path', path: '/audio/a.wav', rawFormat: RAW };
const UPLOAD = { kind: 'upload', id: 'a'.repeat(64), name: 'a.wav' };
const URL_INPUT = { kind: 'url', url: 'https://example.org/a.wav', name: 'a.wav' };

const JOBS = [PATH, UPLOAD, URL_INPUT].flatMap((input) => [
  { ...REQUEST, input, task: 'transcribe', options: OPTIONS },
  { ...REQUEST, input, task: 'vad', options: { vad: VAD, maxSegmentSeconds: 5 } },
]);

/** Either a value that is accepted again, as it is, or the one error that says what is wrong. */
function expectTyped(parse: (raw: unknown) => unknown, raw: unknown): 'taken' | 'refused' {
  let parsed: unknown;
  try {
    parsed = parse(raw);
  } catch (error) {
    if (!(error instanceof WavepoolError) || error.code !== 'INVALID_REQUEST') throw error;
    return 'refused';
  }
  expect(parse(structuredClone(parsed))).toEqual(parsed);
  return 'taken';
}

describe('schemas', () => {
  const stored = JOBS.map((job) => ({ ...job, model: 'm', submittedAt: 1, crashCount: 0 }));
  const added = JOBS.map((job) => ({ ...job, id: 'j', priority: 1, delayMs: 0, attempts: 3 }));
  for (const [name, parse, seeds] of [
    ['job data', parseJobData, stored],
    ['a new job', parseNewJob, added],
  ] as const) {
    test(`${name}: every mutation is taken as it is, or refused as INVALID_REQUEST`, () => {
      const random = randomFrom(SEED);
      const ends = { taken: 0, refused: 0 };
      for (const seed of seeds) expect(expectTyped(parse, seed)).toBe('taken');
      for (let round = 0; round < ROUNDS; round += 1) {
        const seed = seeds[round % seeds.length];
        ends[expectTyped(parse, mutate(seed, random))] += 1;
      }
      // Both kinds are common, or the mutations test nothing.
      expect(ends.taken).toBeGreaterThan(ROUNDS / 100);
      expect(ends.refused).toBeGreaterThan(ROUNDS / 2);
      expect(Object.keys(Object.prototype)).toEqual([]);
    });
  }

  test('ids: whatever is taken is safe as the name of a key and of a file', () => {
    const random = randomFrom(SEED);
    for (let round = 0; round < ROUNDS; round += 1) {
      const raw = mutate(['job-1'], random);
      for (const parse of [parseJobId, parseModelId]) {
        const value: unknown = Array.isArray(raw) ? raw[0] : raw;
        if (expectTyped(parse, value) === 'taken')
          expect(value).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]*$/);
      }
    }
  });
});

const LEADING_OUT = [
  ...['..', '../..', '../../etc/passwd', '/etc/passwd', 'aa/../../x', '....//', '..\\..\\x'],
  ...['%2e%2e/%2e%2e', '..%2f..%2f', '\0', 'aa/\0.json', `aa/${'a'.repeat(64)}.json/..`, ''],
  ...[`../${'a'.repeat(64)}.json`, `aa/${'A'.repeat(64)}.json`, 'journals/x', 'con', '. .', '~'],
];

describe('names that lead out', () => {
  test('are no keys of results and no ids of uploads', async () => {
    await using folder = await temporaryFolder();
    await writeFile(join(folder.path, 'outside.json'), '{}');
    const store = await LocalResultStore.open(join(folder.path, 'results'));
    for (const name of [...LEADING_OUT, '../outside.json']) {
      await expect(store.read(name)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
      await expect(store.remove(name)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
      expect(() => uploadPath('/uploads', name)).toThrow('input not found');
    }
    for (const id of LEADING_OUT)
      expect(store.keyOf(id)).toMatch(/^[0-9a-f]{2}\/[0-9a-f]{64}\.json$/);
  });

  test('give names in archives that stay in their folder, whatever is put before and behind', () => {
    const names = new ArchiveNames();
    const all = LEADING_OUT.flatMap((a) => LEADING_OUT.map((b) => `${a}/${b}`)).map((name, at) =>
      names.add(name, 'txt', at),
    );
    for (const name of all) {
      const parts = name.split('/');
      expect(name).not.toMatch(/^[/\\]|\\|\0|^[a-zA-Z]:/);
      for (const part of parts) expect(part).not.toMatch(/^\.*$/);
    }
    expect(new Set(all.map((name) => name.toLowerCase())).size).toBe(all.length);
  });
});

describe('the HTTP interface', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer();
    await writeFile(join(server.inputRoot, 'a.wav'), 'audio');
  });
  afterAll(() => server[Symbol.asyncDispose]());

  async function expectTypedAnswer(response: Response): Promise<number> {
    const text = await response.text();
    // 501 … 504 and 507 are of the table; 500 would be a defect here.
    expect(response.status, text).not.toBe(500);
    if (response.status < 400) return response.status;
    const problem = ProblemDetails.parse(JSON.parse(text));
    expect(ERROR_CODES).toContain(problem.code);
    expect(text).not.toMatch(/node_modules|at .*\.[jt]s:\d+/);
    return response.status;
  }

  test('answers every mutated body with what it says, and never with a defect', async () => {
    const random = randomFrom(SEED);
    const input = { path: join(server.inputRoot, 'a.wav') };
    const job = { input, task: 'transcribe', model: 'test-model', options: OPTIONS, priority: 5 };
    const bodies = [
      ['/v1/jobs', job],
      ['/v1/jobs', { ...job, task: 'vad', options: { vad: VAD }, clocks: CLOCKS }],
      ['/v1/batches', { inputs: [input, input], task: 'transcribe', options: {} }],
    ] as const;
    const statuses = new Map<number, number>();
    for (let round = 0; round < ROUNDS / 10; round += 1) {
      const [path, seed] = bodies[round % 3] ?? bodies[0];
      const status = await expectTypedAnswer(await server.post(path, mutate(seed, random)));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    expect([...statuses.keys()]).toEqual(expect.arrayContaining([202, 400]));
  });

  test('answers bodies that are no JSON, and addresses that lead out', async () => {
    const headers = { 'content-type': 'application/json' };
    for (const body of ['', '{', '[]', '"x"', 'null', '{"a":'.repeat(5_000), '\ufeff{}', '\0'])
      await expectTypedAnswer(await server.request('/v1/jobs', { method: 'POST', headers, body }));
    for (const name of LEADING_OUT) {
      const encoded = encodeURIComponent(name);
      for (const path of [
        `/v1/jobs/${encoded}`,
        `/v1/jobs/${encoded}/result`,
        `/v1/batches/${encoded}`,
      ])
        expect(await expectTypedAnswer(await server.request(path))).toBeGreaterThanOrEqual(
          name === '' || /^\.+$/.test(name) ? 200 : 400,
        );
      const outside = await server.post('/v1/jobs', {
        input: { path: join(server.inputRoot, name, '..', '..') },
      });
      expect(await expectTypedAnswer(outside)).toBeGreaterThanOrEqual(400);
    }
  });
});
