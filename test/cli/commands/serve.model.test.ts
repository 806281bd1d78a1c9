/** The service with real weights, through plain requests and through its client. */
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../../src/core/errors.ts';
import { JobResource } from '../../../src/core/http/api.ts';
import type { ServiceEvent } from '../../../src/core/http/events.ts';
import { ProblemDetails } from '../../../src/core/http/problem.ts';
import { writeHeaderOnly } from '../../support/odd-audio.ts';
import { signalProcess, workersOf } from '../../support/process-table.ts';
import { Service } from '../../support/service.ts';
import { BASE_CLIP, expectSaid, longSpeech, speechClip, writeNoise } from '../../support/speech.ts';
import { parseSrt } from '../../support/subtitles.ts';
import { normalizedWords } from '../../support/word-error-rate.ts';

const CLIP = speechClip('sense-0880.flac');
const LONG_CLIP = speechClip('two-cities-48k.flac');
/** Many native batches: the worker can be killed between the first and the last. */
const RECORDING_SECONDS = 180;

let service: Service;

beforeAll(async () => {
  service = await Service.start();
  await writeFile(join(service.place.inputs, 'no-bytes.wav'), '');
  await writeHeaderOnly(join(service.place.inputs, 'header-only.wav'));
  await writeNoise(join(service.place.inputs, 'noise.mp3'), 1_000_000);
});

afterAll(() => service[Symbol.asyncDispose]());

describe.each([
  ['no-bytes.wav', 'INPUT_EMPTY'],
  ['header-only.wav', 'INPUT_EMPTY'],
  ['noise.mp3', 'INPUT_UNDECODABLE'],
] as const)('%s ends with %s at its only attempt, and the slot is free', (name, code) => {
  const bad = (): string => join(service.place.inputs, name);

  afterEach(async () => {
    const good = await service.client.jobs.submit({ file: CLIP.path });
    await service.client.jobs.waitFor(good.id);
    expectSaid(await service.client.jobs.result(good.id, 'txt'), CLIP.reference);
  });

  test('by path', async () => {
    const { status, body } = await service.postPath(bad());
    expect(status).toBe(202);
    await expectFailed(JobResource.parse(body), code);
  });

  test('as a form', async () => {
    const { status, body } = await service.postForm(bad());
    if (name !== 'no-bytes.wav') return expectFailed(JobResource.parse(body), code);
    expect(status).toBe(422);
    expect(ProblemDetails.parse(body)).toMatchObject({ code, retryable: false });
  });

  test('through the client', async () => {
    const { jobs } = service.client;
    const run = async (): Promise<unknown> => jobs.waitFor((await jobs.submit({ file: bad() })).id);
    await expect(run()).rejects.toMatchObject({ code, retryable: false });
    const attempts = new Set<number>();
    for await (const job of jobs.list({ state: 'failed' }))
      if (job.input.name === name) attempts.add(job.attempts);
    expect([...attempts]).toEqual([1]);
  });
});

async function expectFailed(job: JobResource, code: ErrorCode): Promise<void> {
  expect(await service.jobAtEnd(job)).toMatchObject({
    state: 'failed',
    attempts: 1,
    failure: { code, retryable: false },
  });
}

test('the segments of a job are told while it runs, and make up its subtitles', async () => {
  const { jobs } = service.client;
  const job = await jobs.submit({ file: LONG_CLIP.path, partials: true });
  const segments = new Map<number, string>();
  let last: ServiceEvent['type'] | undefined;
  for await (const event of jobs.events(job.id)) {
    if (event.type === 'job.segment') segments.set(event.segment.index, event.segment.text);
    last = event.type;
  }
  expect(last).toBe('job.completed');
  const transcript = await jobs.result(job.id);
  expectSaid(transcript.text, LONG_CLIP.reference);
  const told = [...segments].toSorted(([a], [b]) => a - b).map(([, text]) => text);
  expect(told.filter((text) => text !== '')).toEqual(transcript.segments.map(({ text }) => text));
  const cues = parseSrt(await jobs.result(job.id, 'srt'));
  const shown = cues.flatMap(({ lines }) => lines).join(' ');
  expect(normalizedWords(shown)).toEqual(normalizedWords(transcript.text));
  expect(cues.at(-1)?.endMs).toBeLessThanOrEqual(1_000 * transcript.audio.durationSeconds);
});

test('a delayed job is cancelled before it starts', async () => {
  const { jobs } = service.client;
  const job = await jobs.submit({ file: CLIP.path, delayMs: 3_600_000 });
  expect(await jobs.get(job.id)).toMatchObject({ state: 'delayed' });
  expect(await jobs.cancel(job.id)).toMatchObject({ result: 'cancelled' });
  await expect(jobs.waitFor(job.id)).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(await jobs.get(job.id)).toMatchObject({ state: 'cancelled', startedAt: null });
});

test('a failed job that is retried runs once more and fails again', async () => {
  const { jobs } = service.client;
  const { id } = await jobs.submit({ serverPath: join(service.place.inputs, 'noise.mp3') });
  await expect(jobs.waitFor(id)).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
  const first = await jobs.get(id);
  await jobs.retry(id);
  await expect(jobs.waitFor(id)).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
  const second = await jobs.get(id);
  expect(second).toMatchObject({ state: 'failed', attempts: 1 });
  expect(Date.parse(second?.startedAt ?? '')).toBeGreaterThan(Date.parse(first?.startedAt ?? ''));
});

test("OpenAI's client gets the same text", async () => {
  const { jobs } = service.client;
  const { id } = await jobs.submit({ file: BASE_CLIP.path });
  await jobs.waitFor(id);
  const openai = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: 'none' });
  const { text } = await openai.audio.transcriptions.create({
    file: createReadStream(BASE_CLIP.path),
    model: 'moonshine-tiny',
  });
  expect(text).toBe((await jobs.result(id)).text);
  expectSaid(text, BASE_CLIP.reference);
});

test('jobs outlive the worker that ran them', async () => {
  const { jobs, workers } = service.client;
  const recording = join(service.place.root, 'recording.flac');
  await longSpeech(recording, RECORDING_SECONDS);
  const first = await jobs.submit({ file: recording, partials: true });
  const others = await Promise.all(
    Array.from({ length: 5 }, () => jobs.submit({ file: CLIP.path })),
  );
  const [victim] = await workersOf(service.command.pid);
  expect((await workers.list()).map(({ pid }) => pid)).toEqual([victim]);
  let killed = false;
  const afterwards: ServiceEvent['type'][] = [];
  for await (const { type } of jobs.events(first.id)) {
    if (killed) afterwards.push(type);
    if (killed || type !== 'job.segment') continue;
    signalProcess(victim, 'SIGKILL');
    killed = true;
  }
  expect(afterwards).toEqual(expect.arrayContaining(['job.waiting', 'job.running']));
  expect(afterwards.at(-1)).toBe('job.completed');
  expect(await jobs.waitFor(first.id)).toMatchObject({ durationSeconds: RECORDING_SECONDS });
  for (const { id } of others) {
    await jobs.waitFor(id);
    expectSaid(await jobs.result(id, 'txt'), CLIP.reference);
  }
  const [successor = 0, ...more] = await workersOf(service.command.pid);
  expect(more).toEqual([]);
  expect(successor).not.toBe(victim);
});

test('it ends when it is told to', async () => {
  service.command.kill('SIGTERM');
  const { code, stderr } = await service.command.ended;
  expect(code, stderr).toBe(0);
});
