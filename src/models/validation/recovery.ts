/** The end of a start: loads that fail, loads that are overtaken by an unload, and everything unloaded at once. */
import { copyFile, mkdtemp, rm, stat, symlink, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { toWavepoolError } from '../../core/errors.ts';
import type { StartPlan } from '../../core/evidence/validation-ipc.ts';
import type { GroupRequest, RequestRunner } from './request-runner.ts';
import type { StartRecorder } from './start-recorder.ts';
import type { Subject, Subjects } from './subject.ts';

export interface RecoveryOptions {
  readonly plan: StartPlan;
  readonly subjects: Subjects;
  /** The model under validation, which is unloaded. */
  readonly model: Subject;
  readonly runner: RequestRunner;
  readonly recorder: StartRecorder;
  readonly coldWave: readonly GroupRequest[];
}

export async function recover(options: RecoveryOptions): Promise<void> {
  options.recorder.enter('recovery');
  await failedLoad(options);
  await unloadDuringFirstLoad(options);
  await unloadAll(options);
}

/** A file that ends too early cannot be loaded; once the whole one is in its place, the same entry can. */
async function failedLoad({ plan, subjects, runner, recorder, coldWave }: RecoveryOptions) {
  const folder = await mkdtemp(path.join(tmpdir(), 'wavepool-validation-'));
  try {
    const file = path.join(folder, path.basename(plan.model.path));
    await copyFile(plan.model.path, file);
    const { size } = await stat(file);
    await truncate(file, Math.floor(size / 2));
    const subject = subjects.add(`${plan.model.id}.damaged`, file);
    const failure = await subject.load().then(
      () => 'loaded all the same',
      (thrown: unknown) => toWavepoolError(thrown).code,
    );
    const { state, loaded } = subject.status();
    recorder.check(
      'M4',
      'a load that fails',
      !loaded && state === 'failed' && failure !== 'INTERNAL',
      `half a file: ${failure}, the model is ${state}`,
    );
    await rm(file);
    await symlink(path.resolve(plan.model.path), file);
    await subject.load();
    recorder.outcomes((await runner.wave(subject, coldWave)).outcomes);
    recorder.check(
      'M4',
      'the same load again',
      subject.status().loaded,
      'loaded with the whole file',
    );
    await subject.unload();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Arrives in the order load, requests, unload: the requests are served, then the model goes. */
async function unloadDuringFirstLoad({
  plan,
  subjects,
  runner,
  recorder,
  coldWave,
}: RecoveryOptions) {
  const subject = subjects.add(`${plan.model.id}.overtaken`);
  const loading = subject.load();
  if (plan.stateful) await loading;
  const wave = runner.wave(subject, coldWave);
  const unloading = subject.unload();
  await loading;
  const { outcomes } = await wave;
  await unloading;
  recorder.outcomes(outcomes);
  const { state, generation } = subject.status();
  recorder.check(
    'M4',
    'an unload during the first load',
    state === 'unloaded' && generation === 1,
    `${outcomes.length} requests before it were served, then the model was ${state}`,
  );
}

async function unloadAll({ plan, subjects, model, runner, recorder, coldWave }: RecoveryOptions) {
  const other = subjects.add(`${plan.model.id}.second`);
  await model.load();
  await other.load();
  await subjects.unloadAll();
  const loaded = subjects.status().filter((status) => status.loaded);
  recorder.check(
    'M4',
    'all models unloaded at once',
    loaded.length === 0,
    `two were loaded, then ${loaded.length}`,
  );
  await model.load();
  recorder.outcomes((await runner.wave(model, coldWave)).outcomes);
  await model.unload();
}
