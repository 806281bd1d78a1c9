import type { SpeechActivity } from '../../src/core/results/job-result.ts';
import { transcriptOf } from './transcript.ts';

/** A valid result of a `vad` job with the given begins and ends. */
export function speechActivityOf(
  jobId: string,
  times: readonly (readonly [start: number, end: number])[],
): SpeechActivity {
  const { text: _, segments: __, ...rest } = transcriptOf(jobId, '');
  return {
    ...rest,
    model: 'silero-vad',
    task: 'vad',
    segments: times.map(([start, end]) => ({ start, end, confidence: 0.9 })),
    noSpeech: times.length === 0,
  };
}
