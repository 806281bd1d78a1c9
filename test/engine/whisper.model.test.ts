/** Whisper through the engine: what it tells of itself, its options, and slots that share it. */
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { NativeEngine } from '../../src/engine/native-engine.ts';
import type { LoadedModel, TaskOptions, TaskResult } from '../../src/runtime/engine.ts';
import { BASE_CLIP, speechClip } from '../support/speech.ts';
import { whisperModel } from './whisper-model.ts';

const TIMEOUT_MS = 300_000;
const engine = new NativeEngine();
let model: LoadedModel | undefined;

beforeAll(async () => {
  const file = await whisperModel();
  if (file !== undefined) model = await engine.loadModel(file);
});
afterAll(() => model?.close());

function loaded(context: TestContext): LoadedModel {
  return model ?? context.skip('whisper-tiny.en is not installed');
}

/** The clips, each on a slot of its own at once. */
async function transcribe(
  from: LoadedModel,
  clips: readonly string[],
  options: TaskOptions = {},
): Promise<TaskResult[]> {
  const pool = await from.createPool({
    slots: clips.length,
    mode: 'offline',
    threads: 1,
    maxBatch: 4,
  });
  try {
    return await Promise.all(
      clips.map(async (path, slot) => {
        const audio = await engine.openAudio({ kind: 'file', path });
        await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
        const item = { audio, startSample: 0, endSample: audio.endSample, options };
        const [outcome] = await pool.run(slot, [item]).done;
        await audio.close();
        if (outcome?.ok !== true) throw outcome?.error ?? new Error('no outcome');
        return outcome.result;
      }),
    );
  } finally {
    await pool.close();
  }
}

test('it tells its language and its options', (context) => {
  expect(loaded(context).info).toMatchObject({
    family: 'whisper',
    name: 'whisper-tiny.en',
    nativeBatch: true,
    languages: ['en'],
    optionNames: ['suppressBlank', 'language', 'prompt', 'words'],
  });
});

test('it hears words and says when', { timeout: TIMEOUT_MS }, async (context) => {
  const [result] = await transcribe(loaded(context), [BASE_CLIP.path], { words: true });
  expect(result?.text).toMatch(/^And so my fellow Americans/);
  expect(result?.language).toBe('en');
  const words = result?.pieces.flatMap((piece) => piece.words) ?? [];
  expect(words.map((word) => word.text).join(' ')).toBe(result?.text);
  expect(words.map((word) => word.start)).toEqual(
    words.map((word) => word.start).sort((a, b) => a - b),
  );
});

test('two slots at once hear what one hears', { timeout: TIMEOUT_MS }, async (context) => {
  const clips = [speechClip('sense-0890.flac').path, speechClip('sense-0930.flac').path];
  const alone: TaskResult[] = [];
  for (const clip of clips) alone.push(...(await transcribe(loaded(context), [clip])));
  expect(await transcribe(loaded(context), clips)).toEqual(alone);
});

test('a language that it does not speak is refused', { timeout: TIMEOUT_MS }, async (context) => {
  await expect(
    transcribe(loaded(context), [BASE_CLIP.path], { language: 'de' }),
  ).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
});
