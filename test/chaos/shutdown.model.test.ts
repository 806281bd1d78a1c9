/** Commands that are interrupted or killed, with their workers and their Redis. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readConfig } from '../../src/core/config.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { EmbeddedRedis } from '../../src/queue/redis/embedded-redis.ts';
import { longSpeech, shortClips } from '../support/speech.ts';
import { summaryOf } from '../support/wavepool-process.ts';
import { Workplace } from '../support/workplace.ts';

const MODEL = 'moonshine-tiny';

test('Ctrl-C when all that is left is running finishes it, and still ends with 130', async () => {
  await using place = await Workplace.create();
  await shortClips(place.inputs, 3, 4);
  // One after the other, but all of them taken at once.
  const all = [place.inputs, '--out', place.out, '--format', 'txt', '--json'];
  const run = place.start([...all, '--workers', '1', '--batch', '1']);
  await run.before(place.outputCount(1));
  run.kill('SIGINT');
  const end = await run.ended;
  expect(end.code, end.stderr).toBe(130);
  const { done } = summaryOf(end);
  const second = await place.run(all);
  expect(second.code, second.stderr).toBe(0);
  expect(summaryOf(second)).toMatchObject({ finished: done, done: 3 - done, failed: [] });
});

test('a command that is killed leaves neither workers nor a Redis behind', async () => {
  await using place = await Workplace.create();
  await shortClips(place.inputs, 12, 4);
  const all = [place.inputs, '--out', place.out, '--format', 'txt', '--json', '--workers', '2'];
  const run = place.start([...all, '--batch', '1']);
  await run.before(place.outputCount(2));
  expect(await place.redisPid()).toBeDefined();
  run.kill('SIGKILL');
  // Its standard error is closed by the last worker.
  await run.ended;
  expect(await place.redisPid()).toBeUndefined();
  const second = await place.run(all);
  expect(second.code, second.stderr).toBe(0);
  const { done, finished } = summaryOf(second);
  expect(done + finished).toBe(12);
});

test('a second signal ends a worker at once, and gives its job back as it was', async () => {
  await using place = await Workplace.create();
  const recording = join(place.inputs, 'long.flac');
  await longSpeech(recording, 600);
  await using redis = await EmbeddedRedis.acquire({ ...readConfig(), dataDir: place.dataDir });
  await using queue = await AudioQueue.open({ address: redis.address, model: MODEL });
  const worker = place.command('worker', ['--workers', '1']);
  await worker.before(worker.said('serving'));
  const running = new Promise<void>((resolve) => {
    queue.on('progress', ({ progress }) => {
      if (progress.phase === 'running') resolve();
    });
  });
  const id = await queue.add({ input: { kind: 'path', path: recording } });
  await running;
  worker.kill('SIGTERM');
  await worker.before(worker.said('press again'));
  worker.kill('SIGTERM');
  expect((await worker.ended).code).toBe(130);
  expect(await queue.get(id)).toMatchObject({
    state: 'waiting',
    attemptsMade: 0,
    data: { crashCount: 0 },
  });
});
