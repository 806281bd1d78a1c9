/**
 * Where we compute with whisper.cpp, our text is that of its own program, built from the same source, with the same
 * settings. Requests with words are computed so.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { NativeEngine } from '../../src/engine/native-engine.ts';
import { speechClip } from '../support/speech.ts';
import { whisperModel } from './whisper-model.ts';

const CLI = path.resolve(import.meta.dirname, '../../build/release/whisper_cli');
const run = promisify(execFile);

/** Clips with the frames of audio that a segment of their length is given. */
const CLIPS = { 'sense-0870.flac': 512, 'sense-0890.flac': 512, 'sense-0930.flac': 512 };

test('texts equal those of whisper-cli, greedy, with the same audio context', {
  timeout: 300_000,
}, async (context) => {
  const model = await whisperModel();
  if (model === undefined) return context.skip('whisper-tiny.en is not installed');
  if (!existsSync(CLI)) return context.skip('whisper_cli is not built');
  const engine = new NativeEngine();
  const loaded = await engine.loadModel(model);
  const pool = await loaded.createPool({ slots: 1, mode: 'offline', threads: 1, maxBatch: 1 });
  for (const [file, frames] of Object.entries(CLIPS)) {
    const clip = speechClip(file).path;
    const audio = await engine.openAudio({ kind: 'file', path: clip });
    await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    const item = { audio, startSample: 0, endSample: audio.endSample, options: { words: true } };
    const [outcome] = await pool.run(0, [item]).done;
    await audio.close();
    const greedy = ['-bs', '1', '-bo', '1', '-t', '1', '-sns', '-np', '-ac', String(frames)];
    const { stdout } = await run(CLI, ['-m', model, '-f', clip, ...greedy]);
    // [00:00:00.000 --> 00:00:07.000]   text
    const lines = stdout.split('\n').map((line) => line.replace(/^\[.*?\]\s*/, '').trim());
    const expected = lines.filter((line) => line !== '').join(' ');
    expect(expected).not.toBe('');
    expect(outcome?.ok === true && outcome.result.text).toBe(expected);
  }
  await pool.close();
  await loaded.close();
});
