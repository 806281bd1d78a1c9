import { afterEach, describe, expect, test } from 'vitest';
import { WavepoolError } from '../../../src/core/errors.ts';
import type { ModelEntry } from '../../../src/runtime/models/model-entry.ts';
import type { LiveSegment, LiveStream } from '../../../src/worker/live/live-stream.ts';
import { type LiveVadOptions, openLiveVad } from '../../../src/worker/live/live-vad.ts';
import { faults, TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import { ManualClock, turn } from '../../runtime/manual-clock.ts';
import { chunks, type LiveBench, openBench, sound } from './live-fixture.ts';

afterEach(() => {
  if (TEST_ADDON_BUILT) faults().clearFaults();
});

const refusal = (code: string) => expect.objectContaining({ code });
const ignore = () => undefined;

const SCRIPT = '.sss..ss.sss';

interface Found {
  readonly live: LiveStream;
  readonly segments: LiveSegment[];
}

async function open(
  { runtime, detector }: LiveBench,
  options: Partial<LiveVadOptions> = {},
): Promise<Found> {
  const segments: LiveSegment[] = [];
  const live = await openLiveVad({
    runtime,
    detector,
    onSegment: (segment) => segments.push(segment),
    ...options,
  });
  return { live, segments };
}

async function detected(bench: LiveBench, size: number): Promise<LiveSegment[]> {
  const { live, segments } = await open(bench);
  for (const chunk of chunks(sound(SCRIPT), size)) await live.write(chunk);
  await live.finish();
  return segments;
}

const active = (entry: ModelEntry) => entry.slots.state().active;

async function expectFree(bench: LiveBench): Promise<void> {
  expect(bench.detector.slots.state()).toMatchObject({ active: 0, waitingRequests: 0 });
  expect(await detected(bench, 16_000)).toHaveLength(3);
}

describe.skipIf(!TEST_ADDON_BUILT)('live voice activity detection', () => {
  test('tells each stretch of speech when it has ended, whatever the chunks', async () => {
    await using bench = openBench();
    const { live, segments } = await open(bench);
    const told: number[] = [];
    for (const second of chunks(sound(SCRIPT), 16_000)) {
      await live.write(second);
      told.push(segments.length);
    }
    // Each pause ends one, before the next word.
    expect(told).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    expect(await live.finish()).toEqual({
      durationSeconds: SCRIPT.length,
      speechSeconds: expect.closeTo(8, 0),
      segments: 3,
    });
    expect(segments.map(({ index }) => index)).toEqual([0, 1, 2]);
    for (const [at, [start, end]] of [
      [1, 4],
      [6, 8],
      [9, 12],
    ].entries()) {
      expect(segments[at]?.start).toBeCloseTo((start ?? 0) - 0.2, 0);
      expect(segments[at]?.end).toBeCloseTo((end ?? 0) + 0.2, 0);
    }
    for (const size of [777, 5_000, sound(SCRIPT).length]) {
      expect(await detected(bench, size)).toEqual(segments);
    }
  });

  test('takes integers, other rates and several channels', async () => {
    await using bench = openBench();
    const mono = sound(SCRIPT);
    const { live, segments } = await open(bench, { format: { sampleRate: 8_000, channels: 2 } });
    // Every other sample, on both channels: 8 kHz stereo.
    const stereo = Int16Array.from(mono, (_, at) => (mono[at - (at % 2)] ?? 0) * 32_767);
    for (let at = 0; at < stereo.length; at += 4_000)
      await live.write(stereo.slice(at, at + 4_000));
    expect(await live.finish()).toMatchObject({ durationSeconds: SCRIPT.length });
    expect(segments).toHaveLength(3);
  });

  test('settings are those of jobs, checked', async () => {
    await using bench = openBench();
    const { live, segments } = await open(bench, { options: { maxSegmentSeconds: 1 } });
    await live.write(sound('sssss..'));
    await live.finish();
    expect(segments.length).toBeGreaterThan(4);
    await expect(open(bench, { options: { vad: { threshold: 2 } } })).rejects.toEqual(
      refusal('INVALID_REQUEST'),
    );
    for (const wrong of [{ idleTimeoutMs: -1 }, { format: { channels: 0 } }]) {
      await expect(open(bench, wrong)).rejects.toEqual(refusal('INVALID_REQUEST'));
    }
    await expectFree(bench);
  });

  test('a stream without sound, and one without samples, have no segments', async () => {
    await using bench = openBench();
    const silent = await open(bench);
    await silent.live.write(sound('...'));
    expect(await silent.live.finish()).toEqual({
      durationSeconds: 3,
      speechSeconds: 0,
      segments: 0,
    });
    const empty = await open(bench);
    expect(await empty.live.finish()).toMatchObject({ durationSeconds: 0, segments: 0 });
    expect([...silent.segments, ...empty.segments]).toEqual([]);
  });

  test('what ended takes nothing more, and is not finished twice (C1)', async () => {
    await using bench = openBench();
    const { live } = await open(bench);
    await live.write(sound('s'));
    await live.finish();
    await expect(live.finish()).rejects.toEqual(refusal('INVALID_REQUEST'));
    await expect(live.write(sound('s'))).rejects.toEqual(refusal('INVALID_REQUEST'));
    await live.cancel();
    await live.closed;
    await expectFree(bench);
  });

  test('an offline detector cannot start a stream, and a recognizer is no detector (C1)', async () => {
    await using bench = openBench();
    const { runtime, detector, recognizer } = bench;
    const offline = runtime.register('vad', { ...detector.configuration, mode: 'offline' });
    const reading = runtime.register('asr-live', {
      ...recognizer.configuration,
      mode: 'streaming',
    });
    for (const wrong of [offline, recognizer, reading]) {
      await expect(openLiveVad({ runtime, detector: wrong, onSegment: ignore })).rejects.toEqual(
        refusal('INVALID_REQUEST'),
      );
      expect(active(wrong)).toBe(0);
    }
  });

  test('what cannot be taken is refused, and the stream goes on', async () => {
    await using bench = openBench();
    const { live, segments } = await open(bench);
    await expect(live.write(new Float32Array(31 * 16_000))).rejects.toEqual(
      refusal('INPUT_TOO_LARGE'),
    );
    // Callers without types hand in anything.
    const bytes = Reflect.apply(live.write, live, [Buffer.alloc(4)]);
    await expect(bytes).rejects.toEqual(refusal('INVALID_REQUEST'));
    await live.write(sound('.ss..'));
    await live.finish();
    expect(segments).toHaveLength(1);
  });

  test('writes may be made without waiting, up to a bound; what is refused was not taken', async () => {
    await using bench = openBench();
    const { live } = await open(bench, { options: { maxSegmentSeconds: 10 } });
    const writes: Promise<void>[] = [];
    for (let second = 0; second < 200; second += 1) writes.push(live.write(sound('s')));
    const ends = await Promise.allSettled(writes);
    const refused = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []));
    expect(refused.length).toBeGreaterThan(50);
    for (const error of refused) expect(error).toEqual(refusal('QUEUE_FULL'));
    const { durationSeconds } = await live.finish();
    expect(durationSeconds).toBe(ends.length - refused.length);
  });
});

describe.skipIf(!TEST_ADDON_BUILT)('the lease of a live stream', () => {
  test('is held from the start to the end, and managers wait for it (L6)', async () => {
    await using bench = openBench();
    const { runtime, detector } = bench;
    const { live } = await open(bench);
    expect(active(detector)).toBe(1);
    const events: string[] = [];
    const replaced = runtime
      .reconfigure('vad-live', (current) => ({ ...current, slots: 2 }))
      .then(() => events.push('replaced'));
    await live.write(sound('ss'));
    await turn();
    expect(detector.slots.state()).toMatchObject({ active: 1, slots: 1, waitingManagers: 1 });
    expect(detector.generation).toBe(1);
    await live.finish().then(() => events.push('finished'));
    await replaced;
    expect(events).toEqual(['finished', 'replaced']);
    expect(detector.slots.state()).toMatchObject({ active: 0, slots: 2, waitingManagers: 0 });
    await expectFree(bench);
  });

  test('a write that fails while a manager waits lets the manager in (L6, P7)', async () => {
    await using bench = openBench();
    const { runtime, detector } = bench;
    const { live } = await open(bench);
    await live.write(sound('s'));
    const unloaded = runtime.unload('vad-live');
    faults().setFault('run', true);
    await expect(live.write(sound('s'))).rejects.toEqual(refusal('INTERNAL'));
    await unloaded;
    faults().clearFaults();
    expect(detector.snapshot()).toMatchObject({ state: 'unloaded', activeSlots: 0 });
    await expect(live.finish()).rejects.toEqual(refusal('INTERNAL'));
    await expectFree(bench);
  });

  test('a stream that was opened and dropped unused frees its slot (L16)', async () => {
    await using bench = openBench();
    const { detector, runtime } = bench;
    {
      await using _live = (await open(bench)).live;
      expect(active(detector)).toBe(1);
    }
    expect(active(detector)).toBe(0);
    await runtime.unload('vad-live');
    expect(detector.state).toBe('unloaded');
  });

  test('an abandoned stream ends after its idle timeout, and the next one starts from nothing', async () => {
    const clock = new ManualClock();
    await using bench = openBench({ clock });
    const { live, segments } = await open(bench, { clock, idleTimeoutMs: 5_000 });
    await live.write(sound('ss'));
    await clock.advance(4_999);
    // Audio starts the time anew.
    await live.write(sound('s'));
    await clock.advance(4_999);
    expect(active(bench.detector)).toBe(1);
    await clock.advance(1);
    await live.closed;
    expect(active(bench.detector)).toBe(0);
    await expect(live.write(sound('s'))).rejects.toEqual(refusal('STREAM_IDLE'));
    await expect(live.finish()).rejects.toEqual(refusal('STREAM_IDLE'));
    expect(segments).toEqual([]);
    await expectFree(bench);
  });

  test('time in which the detector works is not idle time, and 0 is no timeout', async () => {
    const clock = new ManualClock();
    await using bench = openBench({ clock, streams: 2 });
    const working = await open(bench, { clock, idleTimeoutMs: 1_000 });
    const patient = await open(bench, { clock, idleTimeoutMs: 0 });
    faults().setFault('gate', true);
    const write = working.live.write(sound('s'));
    await clock.advance(60_000);
    faults().setFault('gate', false);
    await write;
    await working.live.finish();
    await patient.live.finish();
    expect(clock.pending).toBe(0);
  });

  test('an aborted signal ends the stream, also in the middle of a write', async () => {
    await using bench = openBench();
    const abort = new AbortController();
    const { live } = await open(bench, { signal: abort.signal });
    await live.write(sound('s'));
    faults().setFault('gate', true);
    const write = live.write(sound('s'));
    abort.abort(new WavepoolError('DEADLINE_EXCEEDED', 'too late'));
    await expect(write).rejects.toEqual(refusal('DEADLINE_EXCEEDED'));
    await live.closed;
    faults().setFault('gate', false);
    await expect(live.finish()).rejects.toEqual(refusal('DEADLINE_EXCEEDED'));
    await expectFree(bench);
    await expect(open(bench, { signal: AbortSignal.abort() })).rejects.toEqual(
      refusal('CANCELLED'),
    );
    await expectFree(bench);
  });

  test('cancelling ends what runs, and gives the slot back', async () => {
    await using bench = openBench();
    const { live } = await open(bench);
    faults().setFault('gate', true);
    const writes = [live.write(sound('s')), live.write(sound('s'))];
    const refused = Promise.all(
      writes.map((write) => expect(write).rejects.toEqual(refusal('CANCELLED'))),
    );
    await Promise.all([live.cancel(), live.cancel()]);
    await refused;
    faults().setFault('gate', false);
    await expectFree(bench);
  });

  test('a listener that throws ends the stream, and the next one is clean (C1)', async () => {
    await using bench = openBench();
    const broken = new Error('a broken listener');
    const { live } = await open(bench, {
      onSegment: () => {
        throw broken;
      },
    });
    await expect(live.write(sound('.sss...'))).rejects.toMatchObject({
      code: 'INTERNAL',
      cause: broken,
    });
    await expectFree(bench);
  });

  test('as many streams as slots run at once; the next waits its turn, or gives up', async () => {
    const clock = new ManualClock();
    await using bench = openBench({ streams: 2, clock });
    const [one, two] = [await open(bench, { clock }), await open(bench, { clock })];
    const late = expect(open(bench, { clock, busyTimeoutMs: 100 })).rejects.toEqual(
      refusal('BUSY_TIMEOUT'),
    );
    await clock.advance(100);
    await late;
    const abort = new AbortController();
    const gone = expect(open(bench, { clock, signal: abort.signal })).rejects.toEqual(
      refusal('CANCELLED'),
    );
    const next = open(bench, { clock });
    await turn();
    abort.abort();
    await gone;
    // P6: two interleaved streams.
    await one.live.write(sound('.ss'));
    await two.live.write(sound('.sss.'));
    await one.live.write(sound('..ss..'));
    await two.live.write(sound('....'));
    await Promise.all([one.live.finish(), two.live.finish()]);
    expect([one.segments.length, two.segments.length]).toEqual([2, 1]);
    await (await next).live.finish();
    await expectFree(bench);
  });

  test('closing the runtime ends open streams', async () => {
    const bench = openBench();
    const { live } = await open(bench);
    await live.write(sound('s'));
    await bench[Symbol.asyncDispose]();
    await expect(live.write(sound('s'))).rejects.toEqual(refusal('SHUTTING_DOWN'));
    expect(active(bench.detector)).toBe(0);
  });
});
