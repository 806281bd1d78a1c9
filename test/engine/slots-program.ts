/** Runs every clip in every slot of a pool at once and tells its parent the texts and the memory that this took. */
import { NativeEngine } from '../../src/engine/native-engine.ts';
import type { Audio, SessionPool, TaskItem } from '../../src/runtime/engine.ts';

const SAMPLE_RATE = 16_000;

export interface SlotsRequest {
  readonly model: string;
  readonly slots: number;
  readonly batch: number;
  readonly maxSegmentSeconds: number;
  readonly clips: readonly string[];
  /** Cuts each clip into segments of these lengths in turn. */
  readonly segmentSeconds: readonly number[];
  /** Most segments that one slot gets; every slot gets the same ones. */
  readonly segments: number;
  /** How often every slot runs them. */
  readonly rounds: number;
}

export interface SlotsReport {
  /** By slot, then segment. */
  readonly texts: readonly (readonly string[])[];
  /** Before the model was loaded, and after all slots have run. */
  readonly residentBytes: { readonly before: number; readonly after: number };
  readonly weightBytes: number;
  readonly sessionBytes: readonly number[];
}

function segmentsOf(audio: Audio, seconds: readonly number[]): TaskItem[] {
  const items: TaskItem[] = [];
  for (let start = 0; start < audio.endSample; ) {
    const length = (seconds[items.length % seconds.length] ?? 1) * SAMPLE_RATE;
    const end = Math.min(start + length, audio.endSample);
    items.push({ audio, startSample: start, endSample: end, options: {} });
    start = end;
  }
  return items;
}

async function runSlot(pool: SessionPool, slot: number, items: TaskItem[]): Promise<string[]> {
  const texts: string[] = [];
  for (let at = 0; at < items.length; at += pool.maxBatch) {
    const outcomes = await pool.run(slot, items.slice(at, at + pool.maxBatch)).done;
    texts.push(...outcomes.map((outcome) => (outcome.ok ? outcome.result.text : '')));
  }
  return texts;
}

async function measure(request: SlotsRequest): Promise<SlotsReport> {
  const engine = new NativeEngine();
  const items: TaskItem[] = [];
  for (const path of request.clips) {
    const audio = await engine.openAudio({ kind: 'file', path });
    await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    items.push(...segmentsOf(audio, request.segmentSeconds));
  }
  items.splice(request.segments);
  const before = process.memoryUsage.rss();
  const model = await engine.loadModel(request.model);
  const pool = await model.createPool({
    slots: request.slots,
    mode: 'offline',
    threads: 1,
    maxBatch: request.batch,
    maxSegmentSeconds: request.maxSegmentSeconds,
  });
  let texts: string[][] = [];
  for (let round = 0; round < request.rounds; round += 1) {
    texts = await Promise.all(pool.sessionBytes.map((_, slot) => runSlot(pool, slot, items)));
  }
  const after = process.memoryUsage.rss();
  return {
    texts,
    residentBytes: { before, after },
    weightBytes: model.info.weightBytes,
    sessionBytes: pool.sessionBytes,
  };
}

process.once('message', (request: SlotsRequest) => {
  void measure(request).then((report) => {
    process.send?.(report, () => process.disconnect());
  });
});
