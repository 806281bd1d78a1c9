/** Live streams over the real models: what they tell is what a job over a file of the same sound tells. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../../src/core/config.ts';
import { TranscribeOptions } from '../../../src/core/job/job.ts';
import { addonPath } from '../../../src/engine/binding.ts';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { ModelStore } from '../../../src/models/store/model-store.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { DecodeAllowance } from '../../../src/worker/audio/decode-allowance.ts';
import { openInput } from '../../../src/worker/audio/input-channels.ts';
import { liveDetectorConfiguration } from '../../../src/worker/live/live-detector.ts';
import type { LiveStream } from '../../../src/worker/live/live-stream.ts';
import {
  type LiveTranscriptionOptions,
  type LiveTranscriptSegment,
  openLiveTranscription,
} from '../../../src/worker/live/live-transcription.ts';
import { TranscriptionRun } from '../../../src/worker/tasks/transcription.ts';
import * as workerEntry from '../../../src/worker.ts';
import { ManualClock } from '../../runtime/manual-clock.ts';
import { expectSaid, joinClips, SPEECH, speechClip } from '../../support/speech.ts';

const TIMEOUT_MS = 300_000;

const { modelsDir } = readConfig();
const store = new ModelStore({ directory: modelsDir, environment: process.env });
const silero = await store.locate('silero-vad');
const moonshine = await store.locate('moonshine-tiny');
const ready = silero !== undefined && moonshine !== undefined && existsSync(addonPath());
if (!ready) {
  process.stderr.write('NOT TESTED: live streams need the addon, silero-vad and moonshine-tiny\n');
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'wavepool-live-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const BATCHES = {
  mode: 'offline',
  slots: 1,
  threads: 1,
  maxAudioSeconds: 480,
  maxWaitMs: 0,
} as const;

function openBench(streams = 1) {
  const runtime = new Runtime(new NativeEngine(), systemClock);
  const detectorPath = silero?.path ?? '';
  const recognizerPath = moonshine?.path ?? '';
  return {
    runtime,
    live: runtime.register('vad-live', liveDetectorConfiguration({ path: detectorPath, streams })),
    detector: runtime.register('vad', { ...BATCHES, path: detectorPath, maxBatch: 16 }),
    recognizer: runtime.register('asr', { ...BATCHES, path: recognizerPath, maxBatch: 8 }),
    [Symbol.asyncDispose]: () => runtime.close(),
  };
}
type Bench = ReturnType<typeof openBench>;

/** What a job over the file tells. */
async function fromFile({ runtime, detector, recognizer }: Bench, file: string) {
  const reader = await openInput(runtime.engine, { path: file }, 'ffmpeg');
  const request = {
    jobId: 'job',
    sequence: 1,
    priority: 0,
    alone: false,
    options: TranscribeOptions.parse({}),
    busyTimeoutMs: 0,
    onProgress: () => undefined,
  };
  const allowance = new DecodeAllowance({ totalSeconds: 600, minimumSeconds: 60 });
  const services = { detector, recognizer, allowance, now: () => performance.now() };
  try {
    const run = new TranscriptionRun([{ reader, speaker: undefined }], request, services);
    const found = await run.run(new AbortController().signal);
    const segments = found.segments.map(({ result, ...segment }) => ({
      ...segment,
      text: result.text,
    }));
    return { ...found, segments };
  } finally {
    await reader.close();
  }
}

async function open(bench: Bench, options: Partial<LiveTranscriptionOptions> = {}) {
  const segments: LiveTranscriptSegment[] = [];
  const live = await openLiveTranscription({
    runtime: bench.runtime,
    detector: bench.live,
    recognizer: bench.recognizer,
    onSegment: (segment) => segments.push(segment),
    ...options,
  });
  return { live, segments };
}

async function writeAll(live: LiveStream, samples: Int16Array, size: number): Promise<void> {
  for (let at = 0; at < samples.length; at += size) await live.write(samples.slice(at, at + size));
}

/** The samples of a file as they are, without a header. */
async function samplesOf(file: string): Promise<Int16Array> {
  const raw = path.join(folder, `${path.basename(file)}.s16`);
  await promisify(execFile)('ffmpeg', ['-loglevel', 'error', '-y', '-i', file, '-f', 's16le', raw]);
  const bytes = readFileSync(raw);
  return new Int16Array(new Uint8Array(bytes).buffer);
}

const words = (segments: readonly { readonly text: string }[]) =>
  segments.map(({ text }) => text).join(' ');

describe.skipIf(!ready)('live transcription with the real models', () => {
  test('tells the segments and the text of a job over the file, whatever the chunks', {
    timeout: TIMEOUT_MS,
  }, async () => {
    await using bench = openBench();
    const file = path.join(folder, 'speech.wav');
    const clips = SPEECH.filter(({ file }) => file.startsWith('sense-'));
    const said = await joinClips(file, clips);
    const expected = await fromFile(bench, file);
    expectSaid(words(expected.segments), said);
    expect(expected.segments.length).toBeGreaterThan(1);
    const samples = await samplesOf(file);
    for (const size of [1_603, 160_000]) {
      const { live, segments } = await open(bench);
      await writeAll(live, samples, size);
      expect(await live.finish()).toEqual({
        durationSeconds: expected.durationSeconds,
        speechSeconds: expected.speechSeconds,
        segments: expected.segments.length,
      });
      expect(segments.map(({ start, end, text }) => [start, end, text])).toEqual(
        expected.segments.map(({ startSample, endSample, text }) => [
          startSample / 16_000,
          endSample / 16_000,
          text,
        ]),
      );
    }
  });

  test('does so at another rate, in two streams at once', { timeout: TIMEOUT_MS }, async () => {
    await using bench = openBench(2);
    const clip = speechClip('two-cities-48k.flac');
    const expected = await fromFile(bench, clip.path);
    const samples = await samplesOf(clip.path);
    const format = { sampleRate: 48_000 };
    const streams = await Promise.all([open(bench, { format }), open(bench, { format })]);
    await Promise.all(
      streams.map(async ({ live, segments }, at) => {
        await writeAll(live, samples, 48_000 * (at + 1));
        await live.finish();
        expect(words(segments)).toBe(words(expected.segments));
      }),
    );
  });

  test('an abandoned stream gives its slot back to a manager that waits, and the next one is clean', {
    timeout: TIMEOUT_MS,
  }, async () => {
    await using bench = openBench();
    const samples = await samplesOf(speechClip('sense-0880.flac').path);
    const whole = async () => {
      const { live, segments } = await open(bench);
      await writeAll(live, samples, 4_000);
      await live.finish();
      return words(segments);
    };
    const expected = await whole();
    expect(expected).not.toBe('');
    const clock = new ManualClock();
    const { live, segments } = await open(bench, { clock, idleTimeoutMs: 1_000 });
    await live.write(samples.slice(0, 20_000));
    const replaced = bench.runtime.reconfigure('vad-live', (now) => ({ ...now, slots: 2 }));
    await clock.advance(999);
    expect(bench.live.slots.state()).toMatchObject({ active: 1, waitingManagers: 1, slots: 1 });
    await clock.advance(1);
    expect(await replaced).toMatchObject({ reconfigured: true });
    expect(bench.live.slots.state()).toMatchObject({ active: 0, waitingManagers: 0, slots: 2 });
    await expect(live.finish()).rejects.toMatchObject({ code: 'STREAM_IDLE' });
    expect(segments).toEqual([]);
    expect(await whole()).toBe(expected);
  });
});

const EXAMPLES = [
  ...readFileSync(new URL('../../../docs/live.md', import.meta.url), 'utf8').matchAll(
    /^```ts\n(.*?)^```$/gms,
  ),
].map(([, source = '']) => source);

/** An example as a function of what it takes from outside; returns what it prints. */
async function runExample(source: string, input: Int16Array): Promise<string[]> {
  const placed = source
    .replace('/var/lib/wavepool/models', modelsDir)
    .replace(/^import (\{[^}]+\}) from 'wavepool\/worker';$/m, 'const $1 = entry;')
    .replace('process.stdin', 'input');
  const { outputText } = ts.transpileModule(`async function example() {\n${placed}\n}`, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
  });
  const printed: string[] = [];
  const print = (...values: unknown[]): void => void printed.push(values.map(String).join(' '));
  const bytes = new Uint8Array(input.buffer);
  const pieces = Array.from({ length: Math.ceil(bytes.length / 65_535) }, (_, at) =>
    bytes.subarray(at * 65_535, (at + 1) * 65_535),
  );
  // The page's text, which only this repository writes.
  const run = new Function('entry', 'input', 'console', `${outputText}\nreturn example();`);
  await run(workerEntry, pieces, { log: print });
  return printed;
}

describe.skipIf(!ready)('docs/live.md', () => {
  test('its examples print what is said, and where', { timeout: TIMEOUT_MS }, async () => {
    expect(EXAMPLES).toHaveLength(2);
    const clip = speechClip('two-cities-48k.flac');
    const samples = (await samplesOf(clip.path)).slice(0, 20 * 48_000);
    const [transcription = '', vad = ''] = EXAMPLES;
    const heard = await runExample(transcription, samples);
    expect(heard.at(-1)).toMatch(/^\d+ segments in 20 seconds$/);
    expect(heard[0]).toMatch(/^\d+\.\d .*it was the best of times/i);
    const found = await runExample(vad, samples);
    expect(found.at(-1)).toMatch(/^\d+ stretches of speech$/);
    expect(found.length).toBeGreaterThan(2);
  });
});
