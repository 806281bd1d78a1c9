import { afterEach, describe, expect, test } from 'vitest';
import { SAMPLE_RATE } from '../../../src/runtime/engine.ts';
import {
  type LiveTranscriptionOptions,
  type LiveTranscriptSegment,
  openLiveTranscription,
} from '../../../src/worker/live/live-transcription.ts';
import { faults, TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { turn } from '../../runtime/manual-clock.ts';
import { chunks, type LiveBench, openBench, sound } from './live-fixture.ts';

afterEach(() => {
  if (TEST_ADDON_BUILT) faults().clearFaults();
});

const refusal = (code: string) => expect.objectContaining({ code });

const OPTIONS = { vad: { targetSegmentMs: 0 } };

async function open(bench: LiveBench, options: Partial<LiveTranscriptionOptions> = {}) {
  const segments: LiveTranscriptSegment[] = [];
  const live = await openLiveTranscription({
    ...bench,
    options: OPTIONS,
    onSegment: (segment) => segments.push(segment),
    ...options,
  });
  return { live, segments };
}

/** What the recognizer says of the same stretch, handed to it as any other audio. */
async function textOf(bench: LiveBench, samples: Float32Array, segment: LiveTranscriptSegment) {
  const audio = bench.runtime.engine.openLiveAudio();
  for (const chunk of chunks(samples, 160_000)) audio.append(chunk);
  audio.end();
  const { text } = await bench.recognizer.submit({
    jobId: 'other',
    jobSequence: 1,
    priority: 0,
    key: 'asr',
    jobRemainingSeconds: 0,
    task: {
      audio,
      startSample: segment.start * SAMPLE_RATE,
      endSample: segment.end * SAMPLE_RATE,
      options: {},
    },
  });
  await audio.close();
  return text;
}

async function expectFree(bench: LiveBench): Promise<void> {
  expect(bench.detector.slots.state()).toMatchObject({ active: 0, waitingRequests: 0 });
  // A batch may still be on its way back when its items have ended; then nothing holds the recognizer.
  (await bench.recognizer.slots.acquire({ timeoutMs: 0, label: 'the test' })).release();
  expect(bench.recognizer.batcher.stats()).toMatchObject({ queuedItems: 0, runningItems: 0 });
  const { live, segments } = await open(bench);
  await live.write(sound('.ss..'));
  await live.finish();
  expect(segments.map(({ index }) => index)).toEqual([0]);
}

describe.skipIf(!TEST_ADDON_BUILT)('live transcription', () => {
  test('each segment has the text of its samples, in the order of the audio', async () => {
    await using bench = openBench();
    const samples = sound('.sss..ss.sssssssssssssss...s');
    const { live, segments } = await open(bench);
    for (const chunk of chunks(samples, 3_200)) await live.write(chunk);
    expect(await live.finish()).toMatchObject({
      durationSeconds: 28,
      segments: segments.length,
    });
    expect(segments.length).toBeGreaterThanOrEqual(5);
    expect(segments.map(({ index }) => index)).toEqual([...segments.keys()]);
    for (const segment of segments) {
      expect(segment.end - segment.start).toBeLessThanOrEqual(10);
      expect(segment.text).toMatch(/^fake /);
      expect(segment.text).toBe(await textOf(bench, samples, segment));
    }
  });

  test('a segment comes as soon as it is recognized, while the stream goes on', async () => {
    await using bench = openBench();
    let tell: (segment: LiveTranscriptSegment) => void = () => undefined;
    const told = new Promise<LiveTranscriptSegment>((resolve) => {
      tell = resolve;
    });
    const { live } = await open(bench, { onSegment: (segment) => tell(segment) });
    await live.write(sound('.sss..'));
    expect(await told).toMatchObject({ index: 0, text: expect.stringMatching(/^fake /) });
    await live.finish();
  });

  test('a write waits until recognition has caught up', async () => {
    await using bench = openBench();
    const events: string[] = [];
    const { live } = await open(bench, { onSegment: () => events.push('told') });
    const held = await bench.recognizer.acquireStream();
    for (let at = 0; at < 5; at += 1) await live.write(sound('ss.ss.ss..', at + 1));
    expect(events).toEqual([]);
    // More than half of four segments of ten seconds and a minute.
    const written = live.write(sound('ss.ss.ss..')).then(() => events.push('written'));
    held.release();
    await written;
    await live.finish();
    expect(events.indexOf('written')).toBeGreaterThan(0);
    expect(events.filter((event) => event === 'told')).toHaveLength(18);
  });

  test('writes beyond the bound are refused; nothing that was taken is lost', async () => {
    await using bench = openBench();
    const { live, segments } = await open(bench);
    faults().setFault('gate', true);
    // The gate holds the detector, too, so all of these wait.
    const writes: Promise<void>[] = [];
    for (let at = 0; at < 30; at += 1) writes.push(live.write(sound('ss.ss.ss..', at + 1)));
    const settled = Promise.allSettled(writes);
    faults().setFault('gate', false);
    const taken = (await settled).filter(({ status }) => status === 'fulfilled').length;
    // Four segments of ten seconds, and a minute.
    expect(taken).toBe(10);
    const { durationSeconds } = await live.finish();
    expect(durationSeconds).toBe(taken * 10);
    expect(segments).toHaveLength(taken * 3);
  });

  test('the slot of the detector is free before the last words are recognized', async () => {
    await using bench = openBench();
    const { detector, recognizer } = bench;
    const { live, segments } = await open(bench);
    await live.write(sound('.sss'));
    const held = await recognizer.acquireStream();
    const finished = live.finish();
    const next = await detector.acquireStream();
    expect(segments).toEqual([]);
    next.release();
    held.release();
    await finished;
    expect(segments).toHaveLength(1);
  });

  test('a failure of the recognizer ends the stream, and the next one is clean', async () => {
    await using bench = openBench();
    const { live, segments } = await open(bench);
    await bench.runtime.unload('asr');
    faults().setFault('load', true);
    const written = live.write(sound('.sss..'));
    await live.closed;
    await written.catch(() => undefined);
    await expect(live.write(sound('s'))).rejects.toEqual(refusal('MODEL_LOAD_FAILED'));
    await expect(live.finish()).rejects.toEqual(refusal('MODEL_LOAD_FAILED'));
    faults().clearFaults();
    expect(segments).toEqual([]);
    await expectFree(bench);
  });

  test('a listener that throws ends the stream, and finish says so (C1)', async () => {
    await using bench = openBench();
    const { live } = await open(bench, {
      onSegment: () => {
        throw new Error('a broken listener');
      },
    });
    await live.write(sound('.ss'));
    await expect(live.finish()).rejects.toMatchObject({
      code: 'INTERNAL',
      detail: 'a broken listener',
    });
    await expectFree(bench);
  });

  test('cancelling ends recognition that runs and that waits; nothing is told afterwards', async () => {
    await using bench = openBench();
    const { recognizer } = bench;
    const { live, segments } = await open(bench);
    const held = await recognizer.acquireStream();
    await live.write(sound('.sss..ss..'));
    expect(recognizer.batcher.stats().queuedItems).toBe(2);
    const finished = expect(live.finish()).rejects.toEqual(refusal('CANCELLED'));
    await live.cancel();
    await finished;
    expect(recognizer.batcher.stats()).toMatchObject({ queuedItems: 0, runningItems: 0 });
    held.release();
    await turn();
    expect(segments).toEqual([]);
    await expectFree(bench);
  });

  test('a detector is no recognizer, and unknown options are refused', async () => {
    await using bench = openBench();
    const { runtime, detector } = bench;
    const vad = runtime.register('vad', { ...detector.configuration, mode: 'offline' });
    await expect(open(bench, { recognizer: vad })).rejects.toEqual(refusal('INVALID_REQUEST'));
    const options = { maxSegmentSeconds: -1 };
    await expect(open(bench, { options })).rejects.toEqual(refusal('INVALID_REQUEST'));
    expect(detector.slots.state().active).toBe(0);
  });

  test('a recognizer that is unloaded under a stream is loaded again for its next segment', async () => {
    await using bench = openBench();
    const { live, segments } = await open(bench);
    await live.write(sound('.ss..'));
    await bench.runtime.unload('asr');
    await live.write(sound('ss..'));
    await live.finish();
    expect(segments).toHaveLength(2);
    expect(bench.recognizer.generation).toBe(2);
  });
});
