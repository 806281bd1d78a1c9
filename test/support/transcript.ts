import type { Transcript } from '../../src/core/results/job-result.ts';

/** A valid transcript with the given text. */
export function transcriptOf(jobId: string, text: string): Transcript {
  return {
    schemaVersion: 1,
    jobId,
    model: 'moonshine-tiny',
    task: 'transcribe',
    input: { name: 'a.wav', path: '/audio/a.wav', bytes: 44 },
    audio: {
      durationSeconds: 1,
      container: 'wav',
      codec: 'pcm_s16le',
      sampleRate: 16_000,
      channels: 1,
    },
    text,
    segments: [{ start: 0, end: 1, text }],
    noSpeech: false,
    warnings: [],
    timings: { queuedMs: 1, decodeMs: 1, vadMs: 1, asrMs: 1, totalMs: 4 },
    build: 'test',
    createdAt: '2026-01-01T00:00:00.000Z',
  };
}
