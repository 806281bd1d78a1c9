/** Evidence in files: whole or nothing, beside the weights or with the package. */
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sha256OfFile } from '../../../src/core/files/file-hash.ts';
import { EvidenceStore } from '../../../src/models/evidence/evidence-store.ts';
import { count, frameworkOf, identity, record } from './evidence-records.ts';

let folder = '';
let store: EvidenceStore;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-evidence-'));
  store = new EvidenceStore({ modelsDir: folder, shippedDir: path.join(folder, 'shipped') });
});
afterEach(() => rm(folder, { recursive: true }));

async function writeShipped(name: string, content: unknown): Promise<void> {
  const file = path.join(folder, 'shipped', name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, JSON.stringify(content));
}

test('what is written is read, admits, and leaves no other file', async () => {
  await store.writeModel(record([count(1), count(2)]));
  await store.writeFramework(frameworkOf(identity.build));
  expect(await store.admitted(identity, 1)).toMatchObject({ count: 2 });
  const files = await readdir(path.join(folder, identity.model, 'evidence'));
  expect(files).toEqual(['offline.json']);
});

test('nothing there is one slot, and nothing to ask for', async () => {
  expect(await store.holds(identity.model, 'offline')).toBe(false);
  expect(await store.admitted(identity, 1)).toEqual({
    count: 1,
    reason: 'nothing has been validated in mode offline',
    record: undefined,
  });
});

test('one other byte in the weights ends the admission, and is told', async () => {
  const weights = path.join(folder, identity.model, 'model.gguf');
  await mkdir(path.dirname(weights));
  await writeFile(weights, 'weights');
  const validated = { ...identity, checkpointSha256: await sha256OfFile(weights) };
  await store.writeModel(record([count(1), count(2)], { identity: validated }));
  await store.writeFramework(frameworkOf(identity.build));
  expect(await EvidenceStore.ofWeights(weights).admitted(validated, 1)).toMatchObject({ count: 2 });
  await appendFile(weights, '\0');
  const now = { ...identity, checkpointSha256: await sha256OfFile(weights) };
  expect(await EvidenceStore.ofWeights(weights).admitted(now, 1)).toMatchObject({
    count: 1,
    reason: 'the weights have changed since they were validated',
  });
});

const DAMAGE: readonly [string, (text: string) => string][] = [
  ['cut off', (text) => text.slice(0, text.length / 2)],
  ['empty', () => ''],
  ['of something else', () => '{"schemaVersion": 1}'],
  ['of another schema', (text) => text.replace('"schemaVersion": 1', '"schemaVersion": 2')],
];

test.each(DAMAGE)('a record that is %s admits nothing and says so', async (_, damage) => {
  await store.writeModel(record([count(1), count(2)]));
  await store.writeFramework(frameworkOf(identity.build));
  const file = store.modelFile(identity.model, 'offline');
  await writeFile(file, damage(await readFile(file, 'utf8')));
  const { count: slots, reason } = await store.admitted(identity, 1);
  expect(slots).toBe(1);
  expect(reason).toBe(`${file} is damaged or of another version, and counts for nothing`);
});

test('a damaged framework record admits nothing and says so', async () => {
  await store.writeModel(record([count(1), count(2)]));
  await mkdir(path.dirname(store.frameworkFile(identity.build)));
  await writeFile(store.frameworkFile(identity.build), '{');
  expect(await store.admitted(identity, 1)).toMatchObject({
    count: 1,
    reason: expect.stringContaining('damaged'),
  });
});

test('evidence that came with the package counts as if it had been made here', async () => {
  await writeShipped(`models/${identity.model}/offline.json`, record([count(1), count(2)]));
  await writeShipped(`framework-${identity.build}.json`, frameworkOf(identity.build));
  expect(await store.holds(identity.model, 'offline')).toBe(true);
  expect(await store.admitted(identity, 1)).toMatchObject({ count: 2 });
  const elsewhere = { ...identity, build: 'of this machine' };
  expect(await store.admitted(elsewhere, 1)).toMatchObject({
    count: 1,
    reason: expect.stringContaining('the native code has changed'),
  });
});

test('of two records the one that admits more counts', async () => {
  await writeShipped(`models/${identity.model}/offline.json`, record([count(1), count(2)]));
  await store.writeModel(record([count(1), count(2), count(3)]));
  await store.writeFramework(frameworkOf(identity.build));
  expect(await store.admitted(identity, 1)).toMatchObject({ count: 3 });
});
