/** What tests of the engine share: an engine over the test addon, and resources that are closed after each test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { NativeEngine } from '../../src/engine/native-engine.ts';
import type {
  Audio,
  LoadedModel,
  PoolOptions,
  SessionPool,
  TaskItem,
  TaskOutcome,
} from '../../src/runtime/engine.ts';
import { type FakeModel, writeFakeModel, writeWav } from './fake-model.ts';
import { faults, TEST_ADDON, TEST_ADDON_BUILT } from './test-addon.ts';

export const engine = new NativeEngine({ addon: TEST_ADDON });
const STALL_TIMEOUT_MS = 60_000;

/** Of the running test. */
export let folder = '';
const toClose: { close(): Promise<void> }[] = [];

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'wavepool-engine-'));
});
afterEach(async () => {
  if (TEST_ADDON_BUILT) faults().clearFaults();
  for (const resource of toClose.splice(0).reverse()) await resource.close();
  rmSync(folder, { recursive: true });
});

export async function openWav(seconds: number, seed = 1): Promise<Audio> {
  const file = writeWav(path.join(folder, `${seed}.wav`), seconds, seed);
  const audio = await engine.openAudio({ kind: 'file', path: file });
  toClose.push(audio);
  return audio;
}

/** A child writes three seconds of WAV into a pipe of ours, as ffmpeg does, then runs `afterwards`. */
export async function openFromChild(
  afterwards: string,
): Promise<{ audio: Audio; child: ChildProcess }> {
  const file = writeWav(path.join(folder, 'source.wav'), 3, 9, 'unknown size');
  const pipe = engine.createPipe();
  const script = `fs.writeFileSync(1, fs.readFileSync(${JSON.stringify(file)})); ${afterwards}`;
  const child = spawn(process.execPath, ['-e', script], {
    stdio: ['pipe', pipe.writeDescriptor, 'inherit'],
  });
  closeSync(pipe.writeDescriptor);
  const audio = await engine.openAudio({
    kind: 'pipe',
    readDescriptor: pipe.readDescriptor,
    stallTimeoutMs: STALL_TIMEOUT_MS,
  });
  toClose.push(audio);
  return { audio, child };
}

export async function openDecoded(seconds: number, seed = 1): Promise<Audio> {
  const audio = await openWav(seconds, seed);
  await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
  return audio;
}

export async function loadFake(model: FakeModel = {}): Promise<LoadedModel> {
  const loaded = await engine.loadModel(writeFakeModel(path.join(folder, 'model.gguf'), model));
  toClose.push(loaded);
  return loaded;
}

export async function openPool(
  options: Partial<PoolOptions> = {},
  model: FakeModel = {},
): Promise<SessionPool> {
  const loaded = await loadFake(model);
  const pool = await loaded.createPool({
    slots: 1,
    mode: 'offline',
    threads: 1,
    maxBatch: 4,
    ...options,
  });
  toClose.push(pool);
  return pool;
}

/** The item for second `second` of the audio. */
export const item = (
  audio: Audio,
  second: number,
  options: TaskItem['options'] = {},
): TaskItem => ({
  audio,
  startSample: second * 16_000,
  endSample: (second + 1) * 16_000,
  options,
});

export const summary = (outcome: TaskOutcome): string =>
  outcome.ok ? outcome.result.text : outcome.error.code;

export async function textAlone(pool: SessionPool, taskItem: TaskItem): Promise<string> {
  const [outcome] = await pool.run(0, [taskItem]).done;
  return outcome === undefined ? 'nothing' : summary(outcome);
}
