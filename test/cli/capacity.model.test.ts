/** How many slots a run may have, and that their number changes no word. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shortClips } from '../support/speech.ts';
import { Workplace } from '../support/workplace.ts';

let place: Workplace;

beforeAll(async () => {
  place = await Workplace.create();
  await shortClips(place.inputs, 24, 3);
});

afterAll(() => place[Symbol.asyncDispose]());

test('more slots than are validated end with exit code 3 and the command that validates them', async () => {
  const out = join(place.root, 'refused');
  const { code, stdout, stderr } = await place.run([place.inputs, '--out', out, '--slots', '2']);
  expect(code).toBe(3);
  expect(stderr).toContain('[CAPACITY_UNVALIDATED]');
  expect(stderr).toContain('wavepool models validate moonshine-tiny --slots 2');
  expect(stdout).toBe('');
  expect(await place.outputs(out)).toEqual([]);
  expect(await place.redisPid()).toBeUndefined();
});

test('two slots without evidence, or two workers, write what one slot writes', async () => {
  const written: string[][] = [];
  for (const [at, capacity] of [[], ['--unvalidated-slots', '2'], ['--workers', '2']].entries()) {
    const out = join(place.root, `out-${at}`);
    const { code, stderr } = await place.run([place.inputs, '--out', out, ...capacity]);
    expect(code, stderr).toBe(0);
    const files = await place.outputs(out);
    expect(files).toHaveLength(24);
    written.push(await Promise.all(files.map((file) => place.read(join('..', `out-${at}`, file)))));
  }
  expect(written[1]).toEqual(written[0]);
  expect(written[2]).toEqual(written[0]);
});
