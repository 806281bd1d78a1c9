/** What tests of the procedure share: a models folder with a fake model, and starts of a worker with a planted defect. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { EvidenceIdentity, ModelEvidence } from '../../../src/core/evidence/evidence.ts';
import { EvidenceStore } from '../../../src/models/evidence/evidence-store.ts';
import { StartProcess } from '../../../src/models/validation/start-process.ts';
import {
  type ValidateModelOptions,
  validateModel,
} from '../../../src/models/validation/validate-model.ts';
import { type FakeModel, writeFakeModel } from '../../engine/fake-model.ts';
import { TEST_ADDON } from '../../engine/test-addon.ts';
import { type CompiledProgram, compileProgram } from '../../support/compile.ts';
import { frameworkOf } from '../evidence/evidence-records.ts';

export const MACHINE = { cpu: 'test', cores: 2, memoryBytes: 2 ** 30, os: 'test' };
export const MODEL = 'fake-asr';

let program: CompiledProgram | undefined;
/** Of the running test. */
export let folder = '';

beforeAll(async () => {
  program = await compileProgram(path.join(import.meta.dirname, 'defective-validation-worker.ts'));
});
afterAll(() => program?.[Symbol.asyncDispose]());
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-validation-test-'));
});
afterEach(() => rm(folder, { recursive: true }));

export function store(): EvidenceStore {
  return new EvidenceStore({ modelsDir: folder, shippedDir: path.join(folder, 'shipped') });
}

export function weights(): string {
  return path.join(folder, MODEL, 'model.gguf');
}

export async function installFake(model: FakeModel = {}): Promise<void> {
  await mkdir(path.dirname(weights()), { recursive: true });
  writeFakeModel(weights(), model);
}

/** @param defect its name, and the starts that have it */
export function worker(...defect: readonly string[]): StartProcess {
  return new StartProcess({ script: program?.path, args: defect });
}

export function validate(
  defect: readonly string[],
  options: Partial<ValidateModelOptions> = {},
): Promise<ModelEvidence> {
  return validateModel({
    model: { id: MODEL, path: weights() },
    mode: 'offline',
    slots: 2,
    threads: 1,
    batch: 4,
    addonPath: TEST_ADDON,
    store: store(),
    worker: worker(...defect),
    machine: MACHINE,
    reproduce: 'test',
    ...options,
  });
}

/** What the record admits once the framework passes. */
export async function admitted(
  { identity }: ModelEvidence,
  change: Partial<EvidenceIdentity> = {},
  batch = 1,
): Promise<{ count: number; reason: string }> {
  await store().writeFramework(frameworkOf(identity.build));
  const { count, reason } = await store().admitted({ ...identity, ...change }, batch);
  return { count, reason };
}
