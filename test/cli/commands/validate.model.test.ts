/** Validation by the command line, over the fake family: real evidence takes minutes and is made by hand. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeFakeModel } from '../../engine/fake-model.ts';
import { TEST_ADDON, TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { WavepoolProcess } from '../../support/wavepool-process.ts';
import { Workplace } from '../../support/workplace.ts';

const built = test.skipIf(!TEST_ADDON_BUILT);

let place: Workplace;
let folder = '';

beforeAll(async () => {
  place = await Workplace.create();
  folder = join(place.root, 'own-models', 'fake-asr');
  await mkdir(folder, { recursive: true });
  writeFakeModel(join(folder, 'model.gguf'), { capacity: 2 });
});

afterAll(() => place[Symbol.asyncDispose]());

function validate(...args: readonly string[]) {
  const file = ['--file', join(folder, 'model.gguf'), '--mode', 'offline'];
  const command = new WavepoolProcess(['models', 'validate', 'fake-asr', ...file, ...args], {
    cwd: place.root,
    env: { WAVEPOOL_ADDON: TEST_ADDON },
  });
  return command.ended;
}

built('a validation shows its entries, keeps the evidence, and makes a page of it', async () => {
  const { code, stdout, stderr } = await validate('--slots', '2', '--report', 'html');
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^slots +verdict +M1 +M2 +M3 +M4 +M5 +M6 +× real time\n1 +PASS/);
  expect(stderr).toContain('[5/6] 2 slots, start 3 of 3');
  expect(stderr).toContain('run: wavepool framework validate');
  const evidence = await readFile(join(folder, 'evidence', 'offline.json'), 'utf8');
  expect(JSON.parse(evidence)).toMatchObject({ verdicts: { model: 'PASS' } });
  const page = await readFile(join(place.root, 'fake-asr-offline.html'), 'utf8');
  expect(page).toContain('<h1>fake-asr <span>offline mode</span></h1>');
});

built('a count that the family does not support ends with exit code 3 and the reason', async () => {
  const { code, stdout, stderr } = await validate('--slots', '3', '--json');
  expect(code).toBe(3);
  expect(JSON.parse(stdout)).toMatchObject({ verdicts: { model: 'UNSUPPORTED' } });
  expect(stderr).toContain('fake-asr may have 1 slot');
});

test('a name that no model can have is a mistake on the command line', async () => {
  const command = ['models', 'validate', 'no:model', '--file', 'any.gguf', '--slots', '2'];
  const { code, stderr } = await new WavepoolProcess(command).ended;
  expect(code).toBe(2);
  expect(stderr).toContain('no:model cannot be the name of a model');
});
