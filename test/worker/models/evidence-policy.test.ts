/** How many sessions a worker may publish. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sha256OfFile } from '../../../src/core/files/file-hash.ts';
import type { WorkerModel } from '../../../src/core/worker/worker-settings.ts';
import { EvidenceStore } from '../../../src/models/evidence/evidence-store.ts';
import { EvidencePolicy } from '../../../src/worker/models/evidence-policy.ts';
import { count, frameworkOf, record, start } from '../../models/evidence/evidence-records.ts';
import { DoubleEngine } from '../../runtime/engine-double.ts';

const MIB = 2 ** 20;

let folder = '';
let weights = '';
let evidence: EvidenceStore;
let engine: DoubleEngine;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-admission-'));
  weights = path.join(folder, 'double', 'model.gguf');
  await mkdir(path.dirname(weights));
  await writeFile(weights, 'weights');
  evidence = new EvidenceStore({ modelsDir: folder, shippedDir: path.join(folder, 'shipped') });
  engine = new DoubleEngine();
});
afterEach(() => rm(folder, { recursive: true }));

function model(change: Partial<WorkerModel> = {}): WorkerModel {
  const rest = { batch: 1, threads: 1, busyTimeoutMs: 0 };
  return { id: 'double', path: weights, slots: 2, ...rest, ...change };
}

/** Each slot beyond the first was measured to add 100 MiB. */
async function validated(most: number): Promise<void> {
  const loaded = await engine.loadModel(weights);
  const { family, task } = loaded.info;
  await loaded.close();
  const identity = {
    model: 'double',
    checkpointSha256: await sha256OfFile(weights),
    build: 'double',
    backend: 'cpu',
    family,
    task,
    mode: 'offline' as const,
  };
  const counts = Array.from({ length: most }, (_, at) => {
    const memory = [{ atMs: 0, phase: 'warm' as const, residentBytes: (200 + at * 100) * MIB }];
    return count(at + 1, { starts: Array(3).fill({ ...start, memory }) });
  });
  await evidence.writeModel(record(counts, { identity }));
  await evidence.writeFramework(frameworkOf('double'));
}

function slots(unvalidated = 0, availableMib = 10_000): EvidencePolicy {
  return new EvidencePolicy(unvalidated, {
    engine,
    evidence,
    availableBytes: () => availableMib * MIB,
  });
}

test('one slot is admitted without a look at anything', async () => {
  await slots().admit(model({ slots: 1 }));
  expect(engine.trace).toEqual([]);
});

test('more than one without evidence is refused with the reason and the command', async () => {
  await expect(slots().admit(model())).rejects.toMatchObject({
    code: 'CAPACITY_UNVALIDATED',
    detail:
      'double is validated for 1, 2 were requested (nothing has been validated in mode offline); ' +
      'run: wavepool models validate double --slots 2 --mode offline',
  });
  expect(engine.live).toEqual({ weights: 0, sessions: 0 });
});

test('what evidence admits is admitted, and no more', async () => {
  await validated(2);
  await slots().admit(model());
  await expect(slots().admit(model({ slots: 3 }))).rejects.toMatchObject({
    code: 'CAPACITY_UNVALIDATED',
  });
  await writeFile(weights, 'weightS');
  await expect(slots().admit(model())).rejects.toMatchObject({
    detail: expect.stringContaining('the weights have changed'),
  });
});

test('the operator may take a count without evidence, within what the family supports', async () => {
  engine.capacities.set(weights, 3);
  await slots(3).admit(model({ slots: 3 }));
  await expect(slots(3).admit(model({ slots: 4 }))).rejects.toMatchObject({
    code: 'SLOTS_UNSUPPORTED',
  });
  await expect(slots(2).admit(model({ slots: 3 }))).rejects.toMatchObject({
    code: 'CAPACITY_UNVALIDATED',
  });
});

test('what cannot fit is refused with figures, from what sessions were measured to cost', async () => {
  await validated(4);
  await slots(0, 500).admit(model({ slots: 4 }));
  await expect(slots(0, 400).admit(model({ slots: 4 }))).rejects.toMatchObject({
    code: 'INSUFFICIENT_MEMORY',
    detail:
      '4 slots of double need 465 MiB (100 each), 400 MiB are available, which is enough for 3',
  });
  expect(engine.live).toEqual({ weights: 0, sessions: 0 });
});

test('a model that starts with one slot may later be given what evidence admits', async () => {
  await validated(2);
  const policy = slots();
  const small = model({ slots: 1 });
  const loaded = await engine.loadModel(weights);
  await policy.learn(small, loaded.info);
  const configuration = {
    path: weights,
    mode: 'offline' as const,
    slots: 2,
    threads: 1,
    maxBatch: 1,
    maxAudioSeconds: 30,
    maxWaitMs: 0,
  };
  expect(policy.evidence('double', configuration)).toBe(2);
  expect(policy.evidence('double')).toBe(2);
  expect(policy.evidence('double', { ...configuration, maxBatch: 8 })).toBe(1);
  expect(policy.evidence('double', { ...configuration, path: 'other.gguf' })).toBe(1);
  expect(policy.evidence('double', { ...configuration, mode: 'streaming' })).toBe(1);
  expect(policy.evidence('unknown', configuration)).toBe(1);
});
