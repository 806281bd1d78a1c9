import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { PresencePublisher } from '../../../src/queue/fleet/presence.ts';
import { modelStatusOf, presenceOf } from '../../support/presence.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { startWorker } from '../../support/worker.ts';
import { runCli } from '../run-cli.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());

function cli(...argv: string[]) {
  return runCli([...argv, '--data-dir', redis.dataDir]);
}

function audio(name: string): string {
  const file = path.join(redis.dataDir, 'audio', name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, name);
  return file;
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

test('enqueue adds a job per file with its settings and prints the ids', async () => {
  const [first, second] = [audio('enqueue/a.wav'), audio('enqueue/sub/b.raw')];
  audio('enqueue/.hidden');
  const { code, stdout, stderr } = await cli(
    ...['enqueue', path.join(redis.dataDir, 'audio/enqueue'), '--model', 'enqueued'],
    ...['--priority', '7', '--delay', '1h', '--attempts', '2', '--timeout', '5m', '--partials'],
    ...['--deadline', '2d', '--tenant', 'acme', '--input-format', 'mulaw,8000,1'],
  );
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: '2 jobs for enqueued, 1 more files are no audio\n',
  });
  await using queue = await AudioQueue.open({ address: redis.address, model: 'enqueued' });
  const views = await Promise.all(linesOf(stdout).map((id) => queue.get(id)));
  const rawFormat = { codec: 'mulaw', sampleRate: 8_000, channels: 1 };
  expect(views.map((view) => view?.data.input)).toEqual([
    { kind: 'path', path: first, rawFormat },
    { kind: 'path', path: second, rawFormat },
  ]);
  expect(views[0]).toMatchObject({
    state: 'delayed',
    priority: 7,
    data: { tenant: 'acme', partials: true, clocks: { timeoutMs: 300_000 } },
  });
  const { submittedAt = 0, clocks } = views[0]?.data ?? {};
  expect(clocks?.deadlineAt).toBeGreaterThan(submittedAt + 47 * 3_600_000);
});

test('with an idempotency key the same files are added once', async () => {
  const files = [audio('twice/a.wav'), audio('twice/b.wav')];
  const enqueue = (key: string) =>
    cli('enqueue', ...files, '--model', 'twice', '--json', '--idempotency-key', key);
  const first = await enqueue('monday');
  expect((await enqueue('monday')).stdout).toBe(first.stdout);
  const parsed = linesOf(first.stdout).map((line) => JSON.parse(line));
  expect(parsed).toMatchObject(files.map((file) => ({ model: 'twice', path: file })));
  expect((await enqueue('tuesday')).stdout).not.toBe(first.stdout);
  await using queue = await AudioQueue.open({ address: redis.address, model: 'twice' });
  expect(await queue.counts()).toMatchObject({ waiting: 4 });
});

test.each([
  ['--delay', 'soon'],
  ['--priority', '-1'],
  ['--deadline', '5 parsecs'],
  ['--input-format', 'opus,48000,2'],
])('enqueue %s %s is a usage error', async (option, value) => {
  const { code, stderr } = await cli('enqueue', audio('usage/a.wav'), `${option}=${value}`);
  expect(code).toBe(2);
  expect(stderr).toContain(option);
});

test('jobs are listed, shown, cancelled and retried from any process', async () => {
  const model = 'handled';
  await using queue = await AudioQueue.open({ address: redis.address, model });
  await queue.add({ id: 'good', input: { kind: 'path', path: '/in/good.wav' } });
  await queue.add({ id: 'bad', input: { kind: 'path', path: '/in/bad\u001b[31m.wav' } });
  {
    await using _ = startWorker(redis.address, model, ({ id }) => {
      if (id === 'bad') throw new WavepoolError('INPUT_UNDECODABLE', 'noise');
    });
    await queue.waitFor('good');
    await queue.waitFor('bad').catch(() => undefined);
  }
  await queue.add({ id: 'waits', input: { kind: 'path', path: '/in/waits.wav' } });

  const list = await cli('jobs', 'list', '--model', model);
  expect(list.code).toBe(0);
  const [head, ...rows] = linesOf(list.stdout);
  expect(head).toMatch(/^job +model +state +submitted +input +note$/);
  expect(rows.map((row) => row.split(/ +/).slice(0, 3))).toEqual([
    ['waits', 'handled', 'waiting'],
    ['bad', 'handled', 'failed'],
    ['good', 'handled', 'completed'],
  ]);
  expect(list.stdout).toContain('noise [INPUT_UNDECODABLE]');
  expect(list.stdout).not.toContain('\u001b');
  const failed = await cli('jobs', 'list', '--state', 'failed,cancelled', '--json');
  expect(JSON.parse(failed.stdout)).toMatchObject({ jobs: [{ id: 'bad', state: 'failed' }] });

  const shown = await cli('jobs', 'show', 'good');
  expect(shown.stdout).toMatch(/^state +completed$/m);
  expect(shown.stdout).toMatch(/^result +result-of-good$/m);
  const json = await cli('jobs', 'show', 'waits', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({ id: 'waits', state: 'waiting' });

  const cancelled = await cli('jobs', 'cancel', 'waits', 'good', 'nobody');
  expect(cancelled.code).toBe(1);
  expect(linesOf(cancelled.stdout)).toEqual([
    'waits: cancelled',
    'good: finished',
    'nobody: no such job: nobody',
  ]);
  const retried = await cli('jobs', 'retry', 'bad', 'waits', '--json');
  expect(retried.code).toBe(0);
  expect(JSON.parse(retried.stdout)).toEqual({
    jobs: [
      { id: 'bad', result: 'waiting' },
      { id: 'waits', result: 'waiting' },
    ],
  });
  expect(await queue.counts()).toMatchObject({ waiting: 2, failed: 0, completed: 1 });
});

test('an unknown job is a usage error', async () => {
  const { code, stderr } = await cli('jobs', 'show', 'nobody');
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: 'wavepool: no such job: nobody [JOB_NOT_FOUND]\n',
  });
});

test('status shows queues, workers with their models, and why jobs failed', async () => {
  const { address } = redis;
  await using queue = await AudioQueue.open({ address, model: 'seen' });
  await queue.add({ id: 'broken', input: { kind: 'path', path: '/in/broken.wav' } });
  {
    await using _ = startWorker(address, 'seen', () => {
      throw new WavepoolError('INPUT_EMPTY', '/in/broken.wav');
    });
    await queue.waitFor('broken').catch(() => undefined);
  }
  await queue.add({ input: { kind: 'path', path: '/in/waits.wav' } });
  const worker = presenceOf({
    host: 'box',
    pid: 7,
    models: [{ id: 'served', slots: 2, batch: 8 }],
    runtime: { build: 'b', models: [modelStatusOf('served')] },
  });
  await using publisher = new PresencePublisher({ address, snapshot: () => worker });
  await publisher.start();

  const { code, stdout } = await cli('status', '--failures', '3');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^seen +1 +0 +0 +0 +1 +none: `wavepool worker --model seen`$/m);
  expect(stdout).toMatch(/^served +0 +0 +0 +0 +0 +1$/m);
  expect(stdout).toMatch(
    /^box:7 +\S.* {2}4 +100\.0 MiB +served +ready +1 +1\/2 +3 +0 +2\.0 of 8 +20\.0$/m,
  );
  expect(stdout).toMatch(/ago +seen +broken +\/in\/broken\.wav +.*\[INPUT_EMPTY\]$/m);

  const json = await cli('status', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({
    workers: [worker],
    failures: expect.arrayContaining([expect.objectContaining({ id: 'broken' })]),
  });
});

test('status --watch goes on until it is interrupted', async () => {
  const argv = ['status', '--watch', '--json', '--data-dir', redis.dataDir];
  const { code, stdout } = await runCli(argv, { interruptAfterOutput: true });
  expect(code).toBe(0);
  expect(linesOf(stdout).map((line) => JSON.parse(line))).toMatchObject([
    { at: expect.any(Number), queues: expect.any(Array), workers: expect.any(Array) },
  ]);
});

test('an empty service says how to begin', async () => {
  const { code, stdout } = await runCli(['status']);
  expect(code).toBe(0);
  expect(stdout).toBe('no queues yet: `wavepool enqueue` adds jobs\n\nno workers\n');
});
