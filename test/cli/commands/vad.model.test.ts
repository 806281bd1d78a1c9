/** `--task vad` as a user meets it: through `run`, and through a server whose worker serves the detector's queue. */
import { cp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WavepoolClient } from '../../../src/client/wavepool-client.ts';
import {
  asSpeechActivity,
  parseJobResult,
  type SpeechActivity,
} from '../../../src/core/results/job-result.ts';
import { BASE_CLIP, ffmpeg, joinClips, SPEECH, speechClip } from '../../support/speech.ts';
import { type ProcessEnd, summaryOf } from '../../support/wavepool-process.ts';
import { Workplace } from '../../support/workplace.ts';

/** The recording is clip, silence, clip, silence …, beginning with silence. */
const CLIPS = ['sense-0880.flac', 'sense-0930.flac', 'sense-0870.flac', 'sense-0920.flac'];
const CLIP_SECONDS = 2.5;
const GAP_SECONDS = 2;
const BOUNDS = CLIPS.map((_, at) => {
  const start = GAP_SECONDS + at * (CLIP_SECONDS + GAP_SECONDS);
  return { start, end: start + CLIP_SECONDS };
});
/** Of the options' default. */
const PAD_SECONDS = 0.2;
/** The clips' own silence at their beginning, and what the detector takes to notice an end. */
const LEAD_SECONDS = 0.4;
const TAIL_SECONDS = 0.2;

const FORMATS = ['--format', 'json,rttm,audacity'];
/** Longer than the pauses inside a clip, shorter than those between them. */
const WHOLE_CLIPS = ['--vad-min-silence', '1s'];
/** With these no worker can start and no queue can be opened. */
const NOTHING_TO_WORK_WITH = ['--redis', 'unix:///nonexistent/redis.sock'];
const NO_ADDON = { env: { WAVEPOOL_ADDON: '/nonexistent/addon.node' } };

let place: Workplace;
let first: ProcessEnd;

beforeAll(async () => {
  place = await Workplace.create();
  const inputs = CLIPS.flatMap((file) => ['-t', String(CLIP_SECONDS), '-i', speechClip(file).path]);
  const parts = CLIPS.map((_, at) => `[${at}]adelay=${1_000 * GAP_SECONDS}[a${at}]`).join(';');
  const joined = `${CLIPS.map((_, at) => `[a${at}]`).join('')}concat=n=${CLIPS.length}:v=0:a=1`;
  const filter = `${parts};${joined},apad=pad_dur=${GAP_SECONDS}`;
  await ffmpeg(...inputs, '-filter_complex', filter, join(place.inputs, 'deep/four clips.flac'));
  await ffmpeg(...silence(5), join(place.inputs, 'silent.wav'));
  await cp(BASE_CLIP.path, join(place.inputs, 'jfk.mp3'));
  await writeFile(join(place.inputs, 'broken.mp3'), 'no audio');
  first = await run(...FORMATS, ...WHOLE_CLIPS);
});

afterAll(() => place[Symbol.asyncDispose]());

function silence(seconds: number): string[] {
  return ['-f', 'lavfi', '-i', 'anullsrc=r=16000:cl=mono', '-t', String(seconds)];
}

function run(...args: readonly string[]): Promise<ProcessEnd> {
  return place.run([place.inputs, '--task', 'vad', '--out', place.out, '--json', ...args]);
}

async function speechIn(file: string): Promise<SpeechActivity> {
  return asSpeechActivity(parseJobResult(JSON.parse(await place.read(file))));
}

test('a broken file is named, and all others are done', () => {
  expect(first.code, first.stderr).toBe(1);
  expect(summaryOf(first)).toMatchObject({
    found: 4,
    done: 3,
    noSpeech: 1,
    failed: [{ path: join(place.inputs, 'broken.mp3'), code: 'INPUT_UNDECODABLE' }],
  });
});

test('every input has a file of each format, in a tree like that of the inputs', async () => {
  const names = ['deep/four clips', 'jfk', 'silent'];
  const expected = names.flatMap((name) =>
    ['json', 'labels.txt', 'rttm'].map((extension) => `${name}.${extension}`),
  );
  expect(await place.outputs()).toEqual(expected);
});

test('the segments of clips between silences are those clips', async () => {
  const { segments, noSpeech, model, task } = await speechIn('deep/four clips.json');
  expect({ noSpeech, model, task }).toEqual({ noSpeech: false, model: 'silero-vad', task: 'vad' });
  expect(segments).toHaveLength(CLIPS.length);
  for (const [at, { start, end, confidence }] of segments.entries()) {
    const clip = BOUNDS[at] ?? { start: Number.NaN, end: Number.NaN };
    expect(start).toBeGreaterThanOrEqual(clip.start - PAD_SECONDS);
    expect(start).toBeLessThanOrEqual(clip.start + LEAD_SECONDS);
    expect(end).toBeGreaterThanOrEqual(clip.end - LEAD_SECONDS);
    expect(end).toBeLessThanOrEqual(clip.end + PAD_SECONDS + TAIL_SECONDS);
    expect(confidence).toBeGreaterThan(0.5);
  }
});

test('RTTM and the label track say the same as the JSON', async () => {
  const { segments } = await speechIn('deep/four clips.json');
  const rttm = (await place.read('deep/four clips.rttm')).trimEnd().split('\n');
  expect(rttm).toEqual(
    segments.map(({ start, end }) => {
      const times = `${start.toFixed(3)} ${(end - start).toFixed(3)}`;
      return `SPEAKER four_clips 1 ${times} <NA> <NA> speech <NA> <NA>`;
    }),
  );
  const labels = (await place.read('deep/four clips.labels.txt')).trimEnd().split('\n');
  expect(labels.map((line) => line.split('\t'))).toEqual(
    segments.map(({ start, end }) => [start.toFixed(6), end.toFixed(6), 'speech']),
  );
});

test('a silent file is done, and its result says that nobody speaks', async () => {
  expect(await speechIn('silent.json')).toMatchObject({ segments: [], noSpeech: true });
  expect(await place.read('silent.rttm')).toBe('');
  expect(await place.read('silent.labels.txt')).toBe('');
});

test('a second call does no work, and a file that is gone is written from the stored result', async () => {
  const before = await place.snapshot();
  await rm(join(place.out, 'jfk.rttm'));
  const args = [place.inputs, '--task', 'vad', '--out', place.out, '--json', ...FORMATS];
  const again = await place.run([...args, ...WHOLE_CLIPS, ...NOTHING_TO_WORK_WITH], NO_ADDON);
  expect(again.code, again.stderr).toBe(1);
  expect(summaryOf(again)).toMatchObject({ done: 1, finished: 2, audioSeconds: 0 });
  const after = await place.snapshot();
  expect([...after].map(([file, { text }]) => [file, text])).toEqual(
    [...before].map(([file, { text }]) => [file, text]),
  );
});

test('other options are new work, and pauses inside a clip end segments then', async () => {
  const whole = await speechIn('jfk.json');
  const { code, stderr, stdout } = await run('--vad-min-silence', '200ms', '--vad-pad', '0');
  expect(code, stderr).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ done: 3, finished: 0 });
  expect((await speechIn('jfk.json')).segments.length).toBeGreaterThan(whole.segments.length);
});

test('without --out the result is printed; RTTM of several files is one stream', async () => {
  const files = SPEECH.slice(0, 2).map(({ path }) => path);
  const { code, stdout, stderr } = await place.run([...files, '--task', 'vad', '--format', 'rttm']);
  expect(code, stderr).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  const names = lines.map((line) => /^SPEAKER (\S+) 1 [\d.]+ [\d.]+ <NA> /.exec(line)?.[1]);
  expect([...new Set(names)].toSorted()).toEqual(['sense-0870', 'sense-0880']);
  const one = await place.run([BASE_CLIP.path, '--task', 'vad']);
  expect(one.code, one.stderr).toBe(0);
  expect(parseJobResult(JSON.parse(one.stdout))).toMatchObject({ task: 'vad', noSpeech: false });
});

test('speech without a pause stays one segment, however long it is', async () => {
  await using other = await Workplace.create();
  await joinClips(join(other.inputs, 'all.flac'), SPEECH);
  const args = [other.inputs, '--task', 'vad', '--out', other.out, '--json'];
  const { code, stderr } = await other.run([...args, '--vad-min-silence', '1500ms']);
  expect(code, stderr).toBe(0);
  const { segments, audio } = asSpeechActivity(
    parseJobResult(JSON.parse(await other.read('all.json'))),
  );
  // Longer than any recognizer takes: here nothing splits what was spoken without a pause.
  expect(Math.max(...segments.map(({ start, end }) => end - start))).toBeGreaterThan(35);
  expect(segments.at(-1)?.end).toBeLessThanOrEqual(audio.durationSeconds);
});

test('a worker for the detector serves vad jobs of the queue and of the server', async () => {
  await using other = await Workplace.create();
  const capacity = ['--with-worker', '--workers', '1'];
  const command = other.command('serve', [...capacity, '--model', 'silero-vad', '--port', '0']);
  const { jobs, models } = new WavepoolClient({
    baseUrl: await command.before(command.firstLine()),
  });
  const job = await jobs.submit({ file: BASE_CLIP.path, task: 'vad', partials: true });
  expect(job).toMatchObject({ model: 'silero-vad', task: 'vad' });
  const told: unknown[] = [];
  for await (const event of jobs.events(job.id)) {
    if (event.type === 'job.segment') told.push([event.segment.start, event.segment.end]);
  }
  const { segments } = await jobs.speech(job.id);
  expect(segments.length).toBeGreaterThan(1);
  expect(told).toEqual(segments.map(({ start, end }) => [start, end]));
  expect(await jobs.result(job.id, 'rttm')).toMatch(/^SPEAKER jfk 1 /);
  const served = (await models.list()).filter(({ workers }) => workers > 0);
  expect(served.map(({ id }) => id)).toEqual(['silero-vad']);
  const wrong = jobs.submit({ file: BASE_CLIP.path });
  await expect(wrong).rejects.toMatchObject({ code: 'TASK_UNSUPPORTED' });
});
