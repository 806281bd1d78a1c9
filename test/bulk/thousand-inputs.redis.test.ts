/** A run of many inputs through a real queue and result store; recognition is that of a worker without a model. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runDirectory } from '../../src/bulk/run-directory.ts';
import { resolveRoots } from '../../src/bulk/scan.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { startRedis, temporaryFolder } from '../support/redis.ts';
import { SMALL_DISKS, SmallDisk } from '../support/small-disk.ts';
import { startTranscribingWorker } from './transcribing-worker.ts';

const INPUTS = 1_000;
const FOLDERS = 7;

test('a thousand inputs are each run once and have their own text', async () => {
  // Only quicker on a disk in memory.
  await using folder = await (SMALL_DISKS ? SmallDisk.mount(2 ** 26) : temporaryFolder());
  await using redis = await startRedis();
  const { address } = redis;
  const [inputs, out] = [join(folder.path, 'in'), join(folder.path, 'out')];
  const stems = Array.from({ length: INPUTS }, (_, at) => join(`${at % FOLDERS}`, `${at}`));
  for (let at = 0; at < FOLDERS; at += 1) mkdirSync(join(inputs, `${at}`), { recursive: true });
  for (const stem of stems) writeFileSync(join(inputs, `${stem}.wav`), `text of ${stem}`);
  const results = await LocalResultStore.open(join(folder.path, 'results'));
  const model = 'thousand';
  await using queue = await AudioQueue.open({ address, model, whenDisconnected: 'wait' });
  await using worker = startTranscribingWorker({ address, model, results, concurrency: 32 });

  const summary = await runDirectory({
    roots: await resolveRoots([inputs]),
    out,
    formats: ['txt'],
    results,
    openQueue: () => Promise.resolve(queue),
    model,
    checkpoint: 'weights-1',
    maxInFlight: 64,
  });

  expect(summary).toMatchObject({ found: INPUTS, done: INPUTS, failed: [], problems: [] });
  expect(worker.ran).toHaveLength(INPUTS);
  expect(new Set(worker.ran).size).toBe(INPUTS);
  for (const stem of stems) {
    expect(readFileSync(join(out, `${stem}.txt`), 'utf8')).toBe(`text of ${stem}\n`);
  }
  const written = readdirSync(out, { recursive: true, encoding: 'utf8' });
  expect(written.filter((name) => name.endsWith('.txt'))).toHaveLength(INPUTS);
}, 60_000);
