/** Disks that are full or read-only, under results, journals and outputs: nothing is lost, and all comes when there is space. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { runDirectory } from '../../src/bulk/run-directory.ts';
import { resolveRoots } from '../../src/bulk/scan.ts';
import { AudioQueue } from '../../src/queue/audio-queue.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { LocalUploads } from '../../src/storage/local-uploads.ts';
import { startTranscribingWorker } from '../bulk/transcribing-worker.ts';
import { writeWav } from '../engine/fake-model.ts';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { FakeWorker } from '../support/fake-worker.ts';
import { startRedis, type TestRedis, temporaryFolder } from '../support/redis.ts';
import { SMALL_DISKS, SmallDisk } from '../support/small-disk.ts';
import { transcriptOf } from '../support/transcript.ts';

const MEBIBYTE = 2 ** 20;
/** Longer than a block of the disk, which is not full before one more is asked for. */
const LONG_TEXT = 'word '.repeat(4_000);

let disk: SmallDisk;
let redis: TestRedis;
let folder: Awaited<ReturnType<typeof temporaryFolder>>;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis[Symbol.asyncDispose]());
beforeEach(async () => {
  folder = await temporaryFolder();
  if (SMALL_DISKS) disk = await SmallDisk.mount(2 * MEBIBYTE);
});
afterEach(async () => {
  if (SMALL_DISKS) await disk[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

async function filesIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

describe.runIf(SMALL_DISKS)('the result store', () => {
  test('on a full disk a result is refused whole, and taken when there is space', async () => {
    const store = await LocalResultStore.open(join(disk.path, 'results'));
    const result = transcriptOf('job', LONG_TEXT);
    await disk.fill();
    const refused = store.commit('job', result);
    await expect(refused).rejects.toMatchObject({ code: 'STORAGE_FULL', retryable: true });
    expect(await filesIn(join(disk.path, 'results'))).toEqual([]);
    await disk.free();
    expect(await store.commit('job', result)).toMatchObject({ committed: true });
    expect(await store.read(store.keyOf('job'))).toEqual(result);
  });

  test('on a disk that became read-only, too, and what it holds can still be read', async () => {
    const store = await LocalResultStore.open(join(disk.path, 'results'));
    await store.commit('first', transcriptOf('first', 'hello'));
    await disk.setReadOnly(true);
    const refused = store.commit('second', transcriptOf('second', 'hello'));
    await expect(refused).rejects.toMatchObject({ code: 'STORAGE_FULL' });
    expect(await store.read(store.keyOf('first'))).toMatchObject({ text: 'hello' });
    await disk.setReadOnly(false);
    expect(await store.commit('second', transcriptOf('second', 'hi'))).toHaveProperty('committed');
  });

  test('a journal that met a full disk keeps its whole lines, and goes on when there is space', async () => {
    const { journals } = await LocalResultStore.open(join(disk.path, 'results'));
    const journal = await journals.open('job', 'aa');
    await journal.append(['one'], true);
    await disk.fill();
    await expect(journal.append([LONG_TEXT], true)).rejects.toMatchObject({ code: 'ENOSPC' });
    await journal.close();
    await disk.free();
    const next = await journals.open('job', 'aa');
    await next.append(['two'], true);
    await next.close();
    expect((await journals.open('job', 'aa')).lines).toEqual(['one', 'two']);
  });
});

test.runIf(SMALL_DISKS)('an upload on a full disk is refused and leaves nothing', async () => {
  const store = await LocalUploads.open(join(disk.path, 'uploads'));
  await disk.fill();
  const bytes = () => Readable.from([Buffer.alloc(64 * 1024, 1)]);
  const refused = store.write(bytes(), { maxBytes: MEBIBYTE });
  await expect(refused).rejects.toMatchObject({ code: 'STORAGE_FULL' });
  await disk.free();
  expect(await filesIn(join(disk.path, 'uploads'))).toEqual([]);
  expect(await store.write(bytes(), { maxBytes: MEBIBYTE })).toMatchObject({ bytes: 65_536 });
});

describe.runIf(SMALL_DISKS)('a run whose output disk is full', () => {
  test('keeps every transcript, and the next run writes them without another job', async () => {
    const inputs = join(folder.path, 'in');
    await mkdir(inputs);
    const names = Array.from({ length: 6 }, (_, at) => `clip-${at}`);
    for (const name of names) await writeFile(join(inputs, `${name}.wav`), `${name} ${LONG_TEXT}`);
    const results = await LocalResultStore.open(join(folder.path, 'results'));
    const model = 'full-output';
    const { address } = redis;
    await using queue = await AudioQueue.open({ address, model, whenDisconnected: 'wait' });
    await using worker = startTranscribingWorker({ address, model, results });
    const out = join(disk.path, 'out');
    const run = async () =>
      runDirectory({
        roots: await resolveRoots([inputs]),
        ...{ out, results, model },
        formats: ['txt'],
        openQueue: () => Promise.resolve(queue),
        checkpoint: 'weights',
        maxInFlight: 4,
      });
    await mkdir(out);
    await disk.fill();
    await expect(run()).rejects.toMatchObject({ code: 'STORAGE_FULL' });
    expect(worker.ran).toEqual([]);
    expect(await filesIn(out)).toEqual([]);
    await disk.free();
    expect(await run()).toMatchObject({ done: 6, failed: [] });
    for (const name of names)
      expect(await readFile(join(out, `${name}.txt`), 'utf8')).toContain(name);
    expect(worker.ran).toHaveLength(6);
  });
});

describe.runIf(SMALL_DISKS && TEST_ADDON_BUILT)('a worker whose result disk is full', () => {
  test('fails its jobs as STORAGE_FULL, and each completes once when there is space', async () => {
    const { address } = redis;
    const model = 'full-results';
    await using worker = await FakeWorker.start({
      address,
      folder: folder.path,
      models: { [model]: {} },
      settings: { resultsDir: join(disk.path, 'results') },
    });
    await using queue = await AudioQueue.open({ address, model, whenDisconnected: 'wait' });
    await disk.fill();
    const path = writeWav(join(folder.path, 'clip.wav'), 1.024);
    const input = { kind: 'path', path } as const;
    const ids = Array.from({ length: 8 }, (_, at) => `job-${at}`);
    await queue.addMany(ids.map((id) => ({ id, input, attempts: 1 })));
    const ends = await Promise.allSettled(ids.map((id) => queue.waitFor(id)));
    for (const end of ends)
      expect(end).toMatchObject({ status: 'rejected', reason: { code: 'STORAGE_FULL' } });
    await disk.free();
    for (const id of ids) expect(await queue.retry(id)).toBe(true);
    const outcomes = await Promise.all(ids.map((id) => queue.waitFor(id)));
    expect(new Set(outcomes.map(({ resultKey }) => resultKey)).size).toBe(ids.length);
    expect((await filesIn(join(disk.path, 'results'))).length).toBe(ids.length);
    expect(worker.latest?.heldJobs).toBe(0);
  });
});
