/** A line of a job's journal: one segment and what the recognizer said of it. Another attempt reads it, maybe elsewhere. */
import { z } from 'zod';

const JournalWord = z.strictObject({
  text: z.string(),
  start: z.number(),
  end: z.number(),
  probability: z.number(),
});

const JournalPiece = z.strictObject({
  text: z.string(),
  start: z.number(),
  end: z.number(),
  averageLogProbability: z.number(),
  noSpeechProbability: z.number(),
  temperature: z.number(),
  words: z.array(JournalWord),
});

/** As the recognizer's result, with plain arrays. JSON has every float exactly. */
export const JournalResult = z.strictObject({
  text: z.string(),
  pieces: z.array(JournalPiece),
  language: z.string(),
  tokens: z.array(z.int()),
  truncated: z.boolean(),
  probabilities: z.array(z.number()),
});
export type JournalResult = z.infer<typeof JournalResult>;

/** The key names the segment and the options under which it was recognized. */
const JournalLine = z.tuple([z.string(), JournalResult]);
export type JournalLine = z.infer<typeof JournalLine>;

export function formatJournalLine(line: JournalLine): string {
  return JSON.stringify(line);
}

/** Undefined for what another version wrote, and for numbers that JSON does not have: those segments are recognized again. */
export function parseJournalLine(text: string): JournalLine | undefined {
  return JournalLine.safeParse(JSON.parse(text)).data;
}
