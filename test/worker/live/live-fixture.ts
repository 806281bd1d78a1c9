/** Live streams over the fake families: what is loud counts as speech, and a text tells every sample of its segment apart. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { NativeEngine } from '../../../src/engine/native-engine.ts';
import { type Clock, systemClock } from '../../../src/runtime/clock.ts';
import type { ModelEntry } from '../../../src/runtime/models/model-entry.ts';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { liveDetectorConfiguration } from '../../../src/worker/live/live-detector.ts';
import { writeFakeModel } from '../../engine/fake-model.ts';
import { TEST_ADDON } from '../../engine/test-addon.ts';

export interface LiveBench extends AsyncDisposable {
  readonly runtime: Runtime;
  /** In streaming mode. */
  readonly detector: ModelEntry;
  readonly recognizer: ModelEntry;
}

const BATCHES = {
  mode: 'offline',
  slots: 1,
  threads: 1,
  maxBatch: 4,
  maxAudioSeconds: 1_000,
  maxWaitMs: 0,
} as const;

export function openBench({
  streams = 1,
  clock = systemClock,
}: {
  readonly streams?: number;
  readonly clock?: Clock;
} = {}): LiveBench {
  const folder = mkdtempSync(path.join(tmpdir(), 'wavepool-live-'));
  const runtime = new Runtime(new NativeEngine({ addon: TEST_ADDON }), clock);
  const vad = { architecture: 'fake-vad', maxSegmentSeconds: 0, capacity: 16 } as const;
  const detector = runtime.register(
    'vad-live',
    liveDetectorConfiguration({
      path: writeFakeModel(path.join(folder, 'vad.gguf'), vad),
      streams,
    }),
  );
  const asr = writeFakeModel(path.join(folder, 'asr.gguf'), { maxSegmentSeconds: 10 });
  const recognizer = runtime.register('asr', { ...BATCHES, path: asr });
  return {
    runtime,
    detector,
    recognizer,
    [Symbol.asyncDispose]: async () => {
      await runtime.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** One character per second at 16 kHz: `s` noise that never repeats, `.` silence. */
export function sound(script: string, seed = 1): Float32Array {
  const samples = new Float32Array(script.length * 16_000);
  let state = seed;
  for (let at = 0; at < samples.length; at += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    if (script[Math.floor(at / 16_000)] === 's') samples[at] = state / 2 ** 32 - 0.5;
  }
  return samples;
}

/** Cuts samples into chunks of `size`. */
export function chunks(samples: Float32Array, size: number): Float32Array[] {
  const count = Math.ceil(samples.length / size);
  return Array.from({ length: count }, (_, at) => samples.slice(at * size, (at + 1) * size));
}
