/** The stored result of a `vad` job: where somebody speaks. Every output format is rendered from it. */
import { z } from 'zod';
import { resultFacts, resultIdentity, resultSource } from './result-members.ts';

export const SpeechActivitySegment = z.strictObject({
  /** Seconds from the beginning of the input. */
  start: z.number().min(0),
  end: z.number().min(0),
  /** Mean probability of speech over the segment, padding left out. */
  confidence: z.number().min(0).max(1),
});
export type SpeechActivitySegment = z.infer<typeof SpeechActivitySegment>;

export const SpeechActivity = z.strictObject({
  ...resultIdentity,
  task: z.literal('vad'),
  ...resultSource,
  /** In the order of the audio; they never overlap. */
  segments: z.array(SpeechActivitySegment),
  noSpeech: z.boolean(),
  ...resultFacts,
});
export type SpeechActivity = z.infer<typeof SpeechActivity>;
