/** `wavepool watch` in a process of its own, on a real folder. */
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { BASE_CLIP, expectSaid, speechClip } from '../../support/speech.ts';
import type { WavepoolProcess } from '../../support/wavepool-process.ts';
import { Workplace } from '../../support/workplace.ts';

let place: Workplace;
beforeEach(async () => {
  place = await Workplace.create();
});
afterEach(() => place[Symbol.asyncDispose]());

function watch(): WavepoolProcess {
  return place.command('watch', [place.inputs, '--out', place.out, '--stable', '1s']);
}

test('recordings are transcribed as they come in, also below new folders and while nobody watched', async () => {
  const other = speechClip('sense-0870.flac');
  const first = watch();
  await first.before(first.said('watching'));
  await copyFile(BASE_CLIP.path, join(place.inputs, 'monday.mp3'));
  await first.before(first.said('monday.mp3: '));
  await mkdir(join(place.inputs, 'week', 'two'), { recursive: true });
  await copyFile(other.path, join(place.inputs, 'week', 'two', 'tuesday.flac'));
  await first.before(first.said('tuesday.flac: '));
  first.kill('SIGTERM');
  expect(await first.ended).toMatchObject({ code: 0, stdout: '' });
  const before = await place.snapshot();

  await copyFile(other.path, join(place.inputs, 'wednesday.flac'));
  const second = watch();
  await second.before(second.said('wednesday.flac: '));
  second.kill('SIGTERM');
  const end = await second.ended;
  expect(end.code).toBe(0);
  expect(end.stderr).not.toContain('monday');

  expect(await place.outputs()).toEqual(['monday.txt', 'wednesday.txt', 'week/two/tuesday.txt']);
  expectSaid(await place.read('monday.txt'), BASE_CLIP.reference);
  expectSaid(await place.read('week/two/tuesday.txt'), other.reference);
  const after = await place.snapshot();
  for (const [name, output] of before) expect(after.get(name)).toEqual(output);
});
