/**
 * How long a request waits for its refusal when all running work is overdue for it: every slot of a fake model hangs in
 * native code, with and without an unload that waits behind it. Needs `npm run build` and
 * `npm run build:native -- --tests`; no peers.
 *
 *   node bench/refusal-latency.mjs [--requests N]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { addonPath } from '../dist/src/engine/binding.js';
import { NativeEngine } from '../dist/src/engine/native-engine.js';
import { writeGguf } from '../dist/src/models/gguf-writer.js';
import { systemClock } from '../dist/src/runtime/clock.js';
import { Runtime } from '../dist/src/runtime/runtime.js';

const SPEECH = fileURLToPath(new URL('../test/fixtures/speech/jfk.mp3', import.meta.url));
/** As short as a caller may ask for; the work it meets has run for longer. */
const BUSY_TIMEOUT_MS = 15;
const OVERDUE_MS = 40;
const LIMIT_MS = 2;

const { values } = parseArgs({ options: { requests: { type: 'string', default: '2000' } } });

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

async function measure(engine, weights, audio, { slots, unloading }) {
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
  for (let request = 0; request < Number(values.requests); request += 1) {
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

const folder = mkdtempSync(path.join(os.tmpdir(), 'wavepool-bench-'));
try {
  const engine = new NativeEngine({ addon: addonPath('addon_test.node') });
  const weights = path.join(folder, 'hanging.gguf');
  await writeFake(weights);
  const audio = await engine.openAudio({ kind: 'file', path: SPEECH });
  await audio.decodeUntil(16_000);
  console.log(`| Slots, all overdue | Unload waiting | p50 | p99 | Most |\n|---|---|---|---|---|`);
  for (const slots of [1, 2, 4]) {
    for (const unloading of [false, true]) {
      const { p50, p99, most } = await measure(engine, weights, audio, { slots, unloading });
      const ms = (value) => `${value.toFixed(3)} ms`;
      console.log(
        `| ${slots} | ${unloading ? 'yes' : 'no'} | ${ms(p50)} | ${ms(p99)} | ${ms(most)} |`,
      );
      if (p99 > LIMIT_MS) process.exitCode = 1;
    }
  }
  await audio.close();
  console.log(
    `\n${os.availableParallelism()} × ${os.cpus()[0]?.model}, Node ${process.versions.node}`,
  );
} finally {
  rmSync(folder, { recursive: true });
}
