/**
 * How long a request waits for its refusal when all running work is overdue for it: every slot of a fake model hangs in
 * native code, with and without an unload that waits behind it. Needs the addon of the tests.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { builtAddonPath } from '../../dist/src/engine/binding.js';
import { NativeEngine } from '../../dist/src/engine/native-engine.js';
import { writeGguf } from '../../dist/src/models/files/gguf-writer.js';
import { systemClock } from '../../dist/src/runtime/clock.js';
import { Runtime } from '../../dist/src/runtime/runtime.js';
import { SPEECH } from '../audio.mjs';
import { table } from '../tables.mjs';

/** As short as a caller may ask for; the work it meets has run for longer. */
const BUSY_TIMEOUT_MS = 15;
const OVERDUE_MS = 40;
const SLOTS = [1, 2, 4];

async function writeFake(file) {
  const metadata = new Map([
    ['general.architecture', { type: 'string', value: 'fake' }],
    ['general.name', { type: 'string', value: 'hanging' }],
    ['fake.capacity', { type: 'u32', value: 4 }],
    ['fake.native_batch', { type: 'u32', value: 1 }],
    ['fake.max_segment_seconds', { type: 'f32', value: 30 }],
  ]);
  const data = Float32Array.of(1, 2, 3, 4);
  const tensors = [{ name: 'fake.weight', shape: [4], type: 'f32', data }];
  await writeGguf(file, { metadata, tensors });
}

const percentile = (sorted, share) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

async function measure(engine, weights, audio, { slots, unloading, requests }) {
  const runtime = new Runtime(engine, systemClock);
  const entry = runtime.register('hanging', {
    ...{ path: weights, mode: 'offline', slots, threads: 1, maxBatch: 1 },
    ...{ maxAudioSeconds: 60, maxWaitMs: 0, busyTimeoutMs: 0 },
  });
  await entry.load();
  const segment = (options) => ({
    ...{ jobId: 'bench', jobSequence: 0, priority: 0, key: 'asr', jobRemainingSeconds: 0 },
    task: { audio, startSample: 0, endSample: 16_000, options },
  });
  const end = new AbortController();
  const running = Array.from({ length: slots }, () =>
    entry.submit(segment({ fault: 'hang' }), { signal: end.signal }).catch(() => undefined),
  );
  while (entry.snapshot().activeSlots < slots) await sleep(1);
  const unload = unloading ? entry.unload() : undefined;
  await sleep(OVERDUE_MS);
  const taken = [];
  for (let request = 0; request < requests; request += 1) {
    const startedAt = performance.now();
    const refusal = await entry
      .submit(segment({}), { busyTimeoutMs: BUSY_TIMEOUT_MS })
      .catch((error) => error);
    taken.push(performance.now() - startedAt);
    if (refusal.code !== 'BUSY_OVERDUE') throw new Error(`not refused: ${refusal.code}`);
    // Other work of the process gets its turns, as in a worker.
    if (request % 10 === 0) await sleep(0);
  }
  end.abort();
  await Promise.all(running);
  await unload;
  await runtime.close();
  taken.sort((a, b) => a - b);
  return { p50: percentile(taken, 0.5), p99: percentile(taken, 0.99), most: taken.at(-1) };
}

export const refusal = {
  name: 'refusal',
  title: 'Refusal of a request behind overdue work',
  share: 0.2,
  missing: () =>
    existsSync(builtAddonPath('addon_test.node')) ? undefined : 'npm run build:native -- --tests',
  settings: (seconds) => ({ requests: Math.round(Math.min(2_000, Math.max(100, seconds * 100))) }),
  estimate: ({ requests }) => 2 * SLOTS.length * (0.3 + requests / 3_000),
  async measure({ requests }) {
    const folder = mkdtempSync(path.join(tmpdir(), 'wavepool-bench-'));
    try {
      const engine = new NativeEngine({ addon: builtAddonPath('addon_test.node') });
      const weights = path.join(folder, 'hanging.gguf');
      await writeFake(weights);
      const file = path.join(SPEECH, 'jfk.mp3');
      const audio = await engine.openAudio({ kind: 'file', path: file });
      await audio.decodeUntil(16_000);
      const cases = [];
      for (const slots of SLOTS) {
        for (const unloading of [false, true]) {
          const found = await measure(engine, weights, audio, { slots, unloading, requests });
          cases.push({ slots, unloading, ...found });
        }
      }
      await audio.close();
      return { requests, cases };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  document({ data: { requests, cases } }) {
    const ms = (value) => value.toFixed(3);
    const rows = cases.map(({ slots, unloading, p50, p99, most }) => [
      String(slots),
      unloading ? 'yes' : 'no',
      ...[p50, p99, most].map(ms),
    ]);
    const head = ['Slots, all overdue', 'Unload waiting', 'p50, ms', 'p99, ms', 'most, ms'];
    return { lines: [`${requests} requests each.`, '', ...table(head, rows)], charts: {} };
  },
};
