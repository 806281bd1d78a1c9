import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { transcriptOf } from '../support/transcript.ts';

let root: string;
let store: LocalResultStore;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'wavepool-results-'));
  store = await LocalResultStore.open(root);
});
afterEach(() => rm(root, { recursive: true }));

async function files(): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
}

test('a committed transcript is read back as it was', async () => {
  const transcript = transcriptOf('job', 'hello – ça va? 你好');
  const { committed, key } = await store.commit('job', transcript);
  expect(committed).toBe(true);
  expect(key).toBe(store.keyOf('job'));
  expect(await store.read(key)).toEqual(transcript);
  expect(await files()).toHaveLength(1);
});

test('a second commit for a job leaves the first result and says so', async () => {
  const first = await store.commit('job', transcriptOf('job', 'first'));
  const second = await store.commit('job', transcriptOf('job', 'second'));
  expect(second).toEqual({ committed: false, key: first.key });
  expect(await store.read(first.key)).toMatchObject({ text: 'first' });
  expect(await files()).toHaveLength(1);
});

test('of many commits at once exactly one wins, and readers see that one', async () => {
  const commits = await Promise.all(
    Array.from({ length: 20 }, (_, n) => store.commit('job', transcriptOf('job', `${n}`))),
  );
  const winners = commits.flatMap(({ committed }, n) => (committed ? [`${n}`] : []));
  expect(winners).toHaveLength(1);
  expect(await store.read(store.keyOf('job'))).toMatchObject({ text: winners[0] });
  expect(await files()).toHaveLength(1);
});

test('ids that differ only in case, or hold path separators, have results of their own', async () => {
  const ids = ['a', 'A', '../a', 'a/b', '..'];
  for (const id of ids) await store.commit(id, transcriptOf('x', id));
  for (const id of ids) expect(await store.read(store.keyOf(id))).toMatchObject({ text: id });
  expect((await files()).map((name) => name.toLowerCase())).toHaveLength(new Set(ids).size);
});

test('a removed result is gone, and may be committed anew', async () => {
  const { key } = await store.commit('job', transcriptOf('job', 'old'));
  expect(await store.remove(key)).toBe(true);
  expect(await store.remove(key)).toBe(false);
  await expect(store.read(key)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
  expect((await store.commit('job', transcriptOf('job', 'new'))).committed).toBe(true);
});

test.each(['../../etc/passwd', '/etc/passwd', 'ab/x.json', ''])(
  'the key %j, which no commit returns, finds nothing',
  async (key) => {
    await expect(store.read(key)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
    await expect(store.remove(key)).rejects.toMatchObject({ code: 'RESULT_NOT_FOUND' });
  },
);

test.each(['{"schemaVersion":1}', '{"text":'])('a damaged result %j is refused', async (text) => {
  const { key } = await store.commit('job', transcriptOf('job', 'x'));
  await writeFile(join(root, key), text);
  await expect(store.read(key)).rejects.toMatchObject({ code: 'INTERNAL' });
});

test('opening removes what dead writers left, and nothing that is being written', async () => {
  const { key } = await store.commit('job', transcriptOf('job', 'x'));
  const stale = join(root, `${key}.aaaa.tmp`);
  const fresh = join(root, `${key}.bbbb.tmp`);
  await writeFile(stale, '{');
  await writeFile(fresh, '{');
  const yesterday = new Date(Date.now() - 86_400_000);
  await utimes(stale, yesterday, yesterday);
  await LocalResultStore.open(root);
  expect((await files()).filter((name) => name.endsWith('.tmp'))).toEqual([
    expect.stringContaining('bbbb'),
  ]);
});
