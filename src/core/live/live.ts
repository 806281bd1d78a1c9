/** What callers of live streams choose, and what they are told. Left out, everything is as for jobs. */
import { z } from 'zod';
import { TranscribeOptions, VadOptions } from '../job/job.ts';
import { parse } from '../parse.ts';

const WHAT = 'options of a live stream';

/** Of detection alone. Segments are what was spoken: nothing is joined for the sake of a recognizer by default. */
export const LiveVadSettings = z.strictObject({
  /** Longer speech is split. */
  maxSegmentSeconds: z.number().gt(0).max(600).default(600),
  vad: VadOptions.extend({ targetSegmentMs: z.int().min(0).max(60_000).default(0) }).prefault({}),
});
export type LiveVadSettings = z.infer<typeof LiveVadSettings>;
export type LiveVadSettingsInput = z.input<typeof LiveVadSettings>;

/** Live audio is one voice, and its segments are told whole. */
export const LiveTranscribeSettings = TranscribeOptions.omit({
  words: true,
  channels: true,
  speakers: true,
});
export type LiveTranscribeSettings = z.infer<typeof LiveTranscribeSettings>;
export type LiveTranscribeSettingsInput = z.input<typeof LiveTranscribeSettings>;

/** Samples without a header, as they come. */
export const LiveFormat = z.strictObject({
  sampleRate: z.int().min(1_000).max(384_000).default(16_000),
  channels: z.int().min(1).max(16).default(1),
  sampleFormat: z.enum(['s16le', 'f32le']).default('s16le'),
});
export type LiveFormat = z.infer<typeof LiveFormat>;

const BYTES_PER_SAMPLE = { s16le: 2, f32le: 4 } as const satisfies Record<
  LiveFormat['sampleFormat'],
  number
>;

export function bytesPerSecond({ sampleRate, channels, sampleFormat }: LiveFormat): number {
  return sampleRate * channels * BYTES_PER_SAMPLE[sampleFormat];
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseLiveVadSettings(raw: LiveVadSettingsInput = {}): LiveVadSettings {
  return parse(LiveVadSettings, raw, WHAT);
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseLiveTranscribeSettings(
  raw: LiveTranscribeSettingsInput = {},
): LiveTranscribeSettings {
  return parse(LiveTranscribeSettings, raw, WHAT);
}
