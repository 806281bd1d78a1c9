/** Runs over a folder of files that say what becomes of them, each test with a folder and a queue of its own. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { type RunDirectoryOptions, runDirectory } from '../../src/bulk/run-directory.ts';
import { resolveRoots } from '../../src/bulk/scan.ts';
import type { RunSummary } from '../../src/bulk/summary.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { startRedis, type TestRedis, temporaryFolder } from '../support/redis.ts';
import { startTranscribingWorker, type TranscribingWorker } from './transcribing-worker.ts';

export let redis: TestRedis;
let models = 0;
export let model = '';
export let folder: Awaited<ReturnType<typeof temporaryFolder>>;
export let results: LocalResultStore;
export let queue: AudioQueue;
export let queuesOpened = 0;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());
beforeEach(async () => {
  models += 1;
  model = `run-${models}`;
  folder = await temporaryFolder();
  results = await LocalResultStore.open(at('results'));
  queue = await AudioQueue.open({ address: redis.address, model, whenDisconnected: 'wait' });
  queuesOpened = 0;
});
afterEach(async () => {
  await queue.close();
  await folder[Symbol.asyncDispose]();
});

export function at(...names: string[]): string {
  return path.join(folder.path, ...names);
}

export function write(files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(at('in', name)), { recursive: true });
    writeFileSync(at('in', name), content);
  }
}

export function startWorker(before?: (name: string) => Promise<void> | void): TranscribingWorker {
  const { address } = redis;
  return startTranscribingWorker({ address, model, results, ...(before ? { before } : {}) });
}

export async function run(options: Partial<RunDirectoryOptions> = {}): Promise<RunSummary> {
  return runDirectory({
    roots: await resolveRoots([at('in')]),
    out: at('out'),
    formats: ['txt'],
    results,
    openQueue: () => {
      queuesOpened += 1;
      return Promise.resolve(queue);
    },
    model,
    checkpoint: 'weights-1',
    maxInFlight: 4,
    ...options,
  });
}

/** Runs with a worker of its own. */
export async function runWithWorker(options: Partial<RunDirectoryOptions> = {}) {
  await using worker = startWorker();
  return { summary: await run(options), ran: worker.ran };
}

export function outputs(): Record<string, string> {
  const names = readdirSync(at('out'), { recursive: true, encoding: 'utf8', withFileTypes: true });
  const files = names
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(at('out'), path.join(entry.parentPath, entry.name)))
    .filter((name) => !name.startsWith('.wavepool'));
  return Object.fromEntries(
    files.toSorted().map((name) => [name, readFileSync(at('out', name), 'utf8')]),
  );
}

export function codes(summary: RunSummary): Record<string, string> {
  return Object.fromEntries(
    summary.failed.map(({ path: file, code }) => [path.relative(at('in'), file), code]),
  );
}
