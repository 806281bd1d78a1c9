/** Runs that are killed, interrupted or robbed of their worker: nothing is lost, nothing is done twice. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { identifyProcess } from '../../src/core/files/process-identity.ts';
import { signalProcess, workersOf } from '../support/process-table.ts';
import { shortClips } from '../support/speech.ts';
import { summaryOf, type WavepoolProcess } from '../support/wavepool-process.ts';
import { Workplace } from '../support/workplace.ts';

const CLIPS = 80;
/** A fifth of the clips: the others keep a fast machine busy until the blow. */
const SOME = 16;

let undisturbed: Workplace;
let expected: Map<string, string>;

beforeAll(async () => {
  undisturbed = await Workplace.create();
  await shortClips(undisturbed.inputs, CLIPS, 2);
  const { code, stderr } = await undisturbed.transcribe('txt,srt');
  expect(code, stderr).toBe(0);
  expected = await textsOf(undisturbed);
  expect(expected.size).toBe(2 * CLIPS);
});

afterAll(() => undisturbed[Symbol.asyncDispose]());

test('a run that was killed goes on where it was, and no finished file is redone', async () => {
  await using place = await Workplace.create();
  const first = start(place);
  await first.before(place.outputCount(2 * SOME));
  const workers = await workersOf(first.pid);
  expect(workers.length).toBeGreaterThan(0);
  first.kill('SIGKILL');
  const { code, signal } = await first.ended;
  expect({ code, signal }).toEqual({ code: null, signal: 'SIGKILL' });
  for (const worker of workers) expect(await identifyProcess(worker)).toBeUndefined();

  const finished = await place.manifest();
  const before = await place.snapshot();
  expect(finished.length).toBeGreaterThan(0);
  expect(finished.length).toBeLessThan(CLIPS);
  const second = await start(place).ended;
  expect(second.code, second.stderr).toBe(0);
  const done = CLIPS - finished.length;
  expect(summaryOf(second)).toMatchObject({ found: CLIPS, done, finished: finished.length });
  expect(await textsOf(place)).toEqual(expected);

  const after = await place.snapshot();
  const outputs = finished.flatMap((record) => (record.state === 'done' ? record.outputs : []));
  for (const { path } of outputs) expect(after.get(path), path).toEqual(before.get(path));
  const manifest = await place.manifest();
  expect(manifest).toHaveLength(CLIPS);
  expect(manifest).toEqual(expect.arrayContaining(finished));
  expect(await place.redisPid()).toBeUndefined();
});

test('a worker that is killed in the middle changes nothing in the outputs', async () => {
  await using place = await Workplace.create();
  const run = start(place);
  await run.before(place.outputCount(2 * SOME));
  const [worker] = await workersOf(run.pid);
  signalProcess(worker, 'SIGKILL');
  const { code, stdout, stderr } = await run.ended;
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('a worker died (SIGKILL)');
  expect(JSON.parse(stdout)).toMatchObject({ found: CLIPS, done: CLIPS, failed: [] });
  expect(await textsOf(place)).toEqual(expected);
  expect(await place.redisPid()).toBeUndefined();
});

test('Ctrl-C ends a run with 130 and its work in order; the same command completes it', async () => {
  await using place = await Workplace.create();
  const first = start(place);
  await first.before(place.outputCount(2 * SOME));
  first.kill('SIGINT');
  const interrupted = await first.ended;
  expect(interrupted.code, interrupted.stderr).toBe(130);
  expect(interrupted.stderr).toContain('run the same command to resume');
  const { done } = summaryOf(interrupted);
  expect(summaryOf(interrupted)).toMatchObject({ interrupted: true, failed: [] });
  expect(await place.manifest()).toHaveLength(done);
  expect(await place.outputs()).toHaveLength(2 * done);
  expect(await place.redisPid()).toBeUndefined();

  const second = await start(place).ended;
  expect(second.code, second.stderr).toBe(0);
  expect(summaryOf(second)).toMatchObject({ done: CLIPS - done, finished: done });
  expect(await textsOf(place)).toEqual(expected);
});

test('a second Ctrl-C ends the run at once, with nothing left running and nothing lost', async () => {
  await using place = await Workplace.create();
  const first = start(place);
  await first.before(place.outputCount(2));
  first.kill('SIGINT');
  await first.before(first.said('press again'));
  first.kill('SIGINT');
  expect((await first.ended).code).toBe(130);
  expect(await place.redisPid()).toBeUndefined();
  const second = await start(place).ended;
  expect(second.code, second.stderr).toBe(0);
  expect(await textsOf(place)).toEqual(expected);
});

test('an output directory that another run uses is refused', async () => {
  await using place = await Workplace.create();
  const first = start(place);
  await first.before(place.outputCount(1));
  // However fast it is, it is still there when the other one comes.
  signalProcess(first.pid, 'SIGSTOP');
  const second = await start(place).ended;
  signalProcess(first.pid, 'SIGCONT');
  expect(second.code).toBe(3);
  expect(second.stderr).toContain('[OUTPUT_BUSY]');
  const { code, stderr } = await first.ended;
  expect(code, stderr).toBe(0);
  expect(await textsOf(place)).toEqual(expected);
});

/** Few jobs at once: when some are done, most of the others have not been taken yet. */
function start(place: Workplace): WavepoolProcess {
  const outputs = ['--out', place.out, '--format', 'txt,srt', '--json'];
  const capacity = ['--workers', '1', '--batch', '4'];
  return place.start([undisturbed.inputs, ...outputs, ...capacity]);
}

async function textsOf(place: Workplace): Promise<Map<string, string>> {
  const snapshot = await place.snapshot();
  return new Map([...snapshot].map(([file, { text }]) => [file, text]));
}
