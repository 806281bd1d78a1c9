import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Audio, LiveAudio, PcmFormat } from '../../src/runtime/engine.ts';
import { engine, folder, openPool, summary } from './engine-fixture.ts';
import { writeWav } from './fake-model.ts';
import { TEST_ADDON_BUILT } from './test-addon.ts';

const refusal = (code: string) => expect.objectContaining({ code });

const WAV_HEADER_BYTES = 44;

/** The text of the fake recognizer tells every sample of an input apart. */
async function heard(audio: Audio): Promise<string> {
  const pool = await openPool({}, { maxSegmentSeconds: 0 });
  const task = { audio, startSample: 0, endSample: audio.endSample, options: {} };
  const [outcome] = await pool.run(0, [task]).done;
  return outcome === undefined ? 'nothing' : summary(outcome);
}

async function fileHeard(file: string): Promise<string> {
  const audio = await engine.openAudio({ kind: 'file', path: file });
  await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
  const text = await heard(audio);
  await audio.close();
  return text;
}

/** A WAV file that claims `format` for its 24,000 samples, and the samples. */
function noiseFile({ sampleRate = 16_000, channels = 1 }: PcmFormat) {
  const file = writeWav(path.join(folder, 'noise.wav'), 1.5);
  const bytes = readFileSync(file);
  bytes.writeUInt16LE(channels, 22);
  bytes.writeUInt32LE(sampleRate, 24);
  bytes.writeUInt32LE(sampleRate * channels * 2, 28);
  bytes.writeUInt16LE(channels * 2, 32);
  writeFileSync(file, bytes);
  const samples = Int16Array.from({ length: 24_000 }, (_, at) =>
    bytes.readInt16LE(WAV_HEADER_BYTES + at * 2),
  );
  return { file, samples };
}

function appendAll(audio: LiveAudio, samples: Int16Array | Float32Array, size: number): void {
  for (let at = 0; at < samples.length; at += size) audio.append(samples.slice(at, at + size));
  audio.end();
}

describe.skipIf(!TEST_ADDON_BUILT)('live audio', () => {
  for (const format of [
    {},
    { sampleRate: 8_000 },
    { sampleRate: 44_100, channels: 2 },
    { sampleRate: 48_000, channels: 3 },
  ]) {
    test(`samples appended as ${JSON.stringify(format)} are those of a file, to the bit`, async () => {
      const { file, samples } = noiseFile(format);
      const expected = await fileHeard(file);
      expect(expected).toMatch(/^fake /);
      const floats = Float32Array.from(samples, (sample) => sample / 32_768);
      for (const [pcm, size] of [
        [samples, 600],
        [floats, 6_666],
        [floats, 24_000],
      ] as const) {
        const audio = engine.openLiveAudio(format);
        appendAll(audio, pcm, size);
        expect(await heard(audio)).toBe(expected);
        await audio.close();
      }
    });
  }

  test('tells what it is, grows with what is appended and shrinks with what is released', async () => {
    const audio = engine.openLiveAudio({ sampleRate: 32_000, channels: 2 });
    expect(audio.info).toEqual({
      container: 'live',
      codec: 'pcm',
      sampleRate: 32_000,
      channels: 2,
      bitsPerSample: 0,
    });
    expect(audio).toMatchObject({ endSample: 0, ended: false, warnings: [], residentBytes: 0 });
    audio.append(new Float32Array(10 * 64_000).fill(0.5));
    // All but the last block and what the resampler looks ahead.
    expect(audio.endSample).toBeGreaterThan(159_000);
    audio.end();
    expect(audio).toMatchObject({ endSample: 160_000, ended: true });
    const before = audio.residentBytes;
    audio.release(150_000);
    expect(audio.residentBytes).toBeLessThan(before / 4);
    await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    await audio.close();
    expect(audio.residentBytes).toBe(0);
  });

  test('tells of a silent channel', async () => {
    const audio = engine.openLiveAudio({ channels: 2 });
    audio.append(Float32Array.from({ length: 64_000 }, (_, at) => (at % 2) * Math.sin(at)));
    expect(audio.warnings).toMatchObject([{ code: 'ONE_CHANNEL_SILENT' }]);
    await audio.close();
  });

  test('refuses what does not fit', async () => {
    for (const format of [
      { sampleRate: 999 },
      { sampleRate: 384_001 },
      { sampleRate: 16_000.5 },
      { channels: 0 },
      { channels: 65 },
    ]) {
      expect(() => engine.openLiveAudio(format)).toThrow(refusal('INVALID_REQUEST'));
    }
    const audio = engine.openLiveAudio({ channels: 2 });
    expect(() => audio.append(new Float32Array(3))).toThrow(refusal('INVALID_REQUEST'));
    // Callers without types hand in anything.
    for (const other of [new Float64Array(2), Buffer.alloc(4), [0, 0], undefined]) {
      expect(() => Reflect.apply(audio.append, audio, [other])).toThrow(refusal('INVALID_REQUEST'));
    }
    await expect(audio.decodeUntil(1)).rejects.toEqual(refusal('INVALID_REQUEST'));
    audio.end();
    expect(() => audio.end()).toThrow(refusal('INVALID_REQUEST'));
    expect(() => audio.append(new Float32Array(2))).toThrow(refusal('INVALID_REQUEST'));
    await audio.close();
    expect(() => audio.append(new Float32Array(2))).toThrow(refusal('INVALID_REQUEST'));
  });

  test('what is no number becomes silence, as in a file', async () => {
    const audio = engine.openLiveAudio();
    audio.append(Float32Array.of(Number.NaN, 0.5, Number.POSITIVE_INFINITY));
    audio.end();
    const pool = await openPool({ mode: 'streaming' }, { architecture: 'fake-vad' });
    const stream = await pool.startStream(0, {});
    await stream.push({ audio, startSample: 0, endSample: 3 });
    const { probabilities } = await stream.finish();
    expect([...probabilities].every((one) => one >= 0 && one <= 1)).toBe(true);
    await audio.close();
  });
});
