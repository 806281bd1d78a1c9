/** Turns what a transcription run found into the stored transcript. */
import type { Transcript } from '../core/transcript.ts';
import type { AudioWarning } from '../runtime/engine.ts';
import { identityOf, provenanceOf, type ResultFacts, sourceOf, toSeconds } from './result-facts.ts';
import type { Transcription } from './transcription.ts';

export function buildTranscript(facts: ResultFacts, transcription: Transcription): Transcript {
  const segments = transcription.segments.filter(({ text }) => text !== '');
  return {
    ...identityOf(facts),
    task: 'transcribe',
    ...sourceOf(facts),
    text: segments.map(({ text }) => text).join(' '),
    segments: segments.map((segment) => ({
      start: toSeconds(segment.startSample),
      end: toSeconds(segment.endSample),
      text: segment.text,
      ...(segment.truncated ? { truncated: true } : {}),
    })),
    noSpeech: transcription.segments.length === 0,
    warnings: [...facts.reader.warnings, ...recognitionWarnings(transcription)],
    ...provenanceOf(facts),
  };
}

function recognitionWarnings({ segments, guessedSegments }: Transcription): AudioWarning[] {
  const warnings: AudioWarning[] = [];
  const truncated = segments.filter((segment) => segment.truncated).length;
  if (truncated > 0) {
    const message = `${truncated} of ${segments.length} segments reached the model's length limit`;
    warnings.push({ code: 'SEGMENT_TRUNCATED', message });
  }
  if (guessedSegments > 0) {
    const message = `the text of ${guessedSegments} of ${segments.length} segments is a guess: hardly a word was understood`;
    warnings.push({ code: 'TEXT_GUESSED', message });
  }
  const silent = segments.filter(({ text }) => text === '').length;
  if (silent > 0) {
    const message = `no words were recognized in ${silent} of ${segments.length} segments`;
    warnings.push({ code: 'SPEECH_NOT_RECOGNIZED', message });
  }
  return warnings;
}
