/** Many files at once, among them bad ones; and two runs at once. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ffmpeg, shortClips } from '../support/speech.ts';
import { summaryOf } from '../support/wavepool-process.ts';
import { Workplace } from '../support/workplace.ts';

const CLIPS = 88;
const VIDEO = 'clip-043-video.mp4';
const TEXT = 'clip-044-text.mp3';

let place: Workplace;

beforeAll(async () => {
  place = await Workplace.create();
  await shortClips(place.inputs, CLIPS, 2);
  const pictures = ['-f', 'lavfi', '-i', 'testsrc=size=64x64:rate=5', '-t', '2', '-c:v', 'mpeg4'];
  await ffmpeg(...pictures, join(place.inputs, VIDEO));
  await writeFile(join(place.inputs, TEXT), 'These are the minutes of the meeting.\n'.repeat(500));
});

afterAll(() => place[Symbol.asyncDispose]());

test('two bad files in the middle of 90 cost nothing but themselves', async () => {
  const end = await place.transcribe('txt');
  expect(end.code, end.stderr).toBe(1);
  const { failed, ...counts } = summaryOf(end);
  expect(counts).toMatchObject({ found: CLIPS + 2, done: CLIPS, skipped: 0, problems: [] });
  expect(failed).toMatchObject([
    { path: join(place.inputs, VIDEO), code: 'INPUT_UNDECODABLE' },
    { path: join(place.inputs, TEXT), code: 'INPUT_UNDECODABLE' },
  ]);
  expect(failed[0]?.message).toContain('no audio stream');
  expect(end.stderr).toContain(VIDEO);
  expect(end.stderr).toContain(TEXT);
  expect(end.stderr).not.toContain('Warning');

  expect(await place.outputs()).toHaveLength(CLIPS);
  const inputs = (await place.manifest()).map((record) => record.path);
  expect(inputs).toHaveLength(CLIPS + 2);
  expect(new Set(inputs).size).toBe(CLIPS + 2);
});

test('two runs at once share the Redis of their data directory and both complete', async () => {
  await using both = await Workplace.create();
  const outs = [join(both.root, 'out-a'), join(both.root, 'out-b')];
  const runs = outs.map((out) =>
    both.start([place.inputs, '--out', out, '--json', '--threads', '1']),
  );
  const servers = await Promise.all(
    runs.map(async (run, at) => {
      await run.before(both.outputCount(1, outs[at]));
      return both.redisPid();
    }),
  );
  expect(servers[0]).toBeDefined();
  expect(servers[1]).toBe(servers[0]);
  for (const run of runs) {
    const end = await run.ended;
    expect(end.code, end.stderr).toBe(1);
    expect(summaryOf(end)).toMatchObject({ found: CLIPS + 2, done: CLIPS, finished: 0 });
  }
  const [a, b] = await Promise.all(outs.map((out) => both.outputs(out)));
  expect(a).toHaveLength(CLIPS);
  expect(b).toEqual(a);
  expect(await both.redisPid()).toBeUndefined();
});
