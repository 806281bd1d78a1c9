/** Turns what a detection run found into the stored result. */
import type { SpeechActivity } from '../../core/results/job-result.ts';
import type { Detection } from './detection.ts';
import { identityOf, provenanceOf, type ResultFacts, sourceOf, toSeconds } from './result-facts.ts';

export function buildSpeechActivity(facts: ResultFacts, { segments }: Detection): SpeechActivity {
  return {
    ...identityOf(facts),
    task: 'vad',
    ...sourceOf(facts),
    segments: segments.map(({ startSample, endSample, confidence }) => ({
      start: toSeconds(startSample),
      end: toSeconds(endSample),
      confidence: Math.round(confidence * 1_000) / 1_000,
    })),
    noSpeech: segments.length === 0,
    warnings: [...facts.channels.warnings],
    ...provenanceOf(facts),
  };
}
