/** Turns what a transcription run found into the stored transcript. */
import type { Transcript } from '../../core/results/job-result.ts';
import type { AudioWarning } from '../../runtime/engine.ts';
import { transcriptSegmentsOf } from './recognized-pieces.ts';
import { identityOf, provenanceOf, type ResultFacts, sourceOf } from './result-facts.ts';
import type { Transcription } from './transcription.ts';

export function buildTranscript(facts: ResultFacts, transcription: Transcription): Transcript {
  const { segments, language } = transcription;
  const { voices, warnings } = facts.channels;
  const texts = segments.map(({ result }) => result.text).filter((text) => text !== '');
  return {
    ...identityOf(facts),
    task: 'transcribe',
    ...sourceOf(facts),
    ...(language === undefined ? {} : { language }),
    text: texts.join(' '),
    segments: segments
      .flatMap((segment) => transcriptSegmentsOf(segment, voices[segment.channel]?.speaker))
      .toSorted((a, b) => a.start - b.start),
    noSpeech: segments.length === 0,
    warnings: [...warnings, ...recognitionWarnings(transcription)],
    ...provenanceOf(facts),
  };
}

function recognitionWarnings({ segments, guessedSegments }: Transcription): AudioWarning[] {
  const warnings: AudioWarning[] = [];
  const truncated = segments.filter(({ result }) => result.truncated).length;
  if (truncated > 0) {
    const message = `${truncated} of ${segments.length} segments reached the model's length limit`;
    warnings.push({ code: 'SEGMENT_TRUNCATED', message });
  }
  if (guessedSegments > 0) {
    const message = `the text of ${guessedSegments} of ${segments.length} segments is a guess: hardly a word was understood`;
    warnings.push({ code: 'TEXT_GUESSED', message });
  }
  const silent = segments.filter(({ result }) => result.text === '').length;
  if (silent > 0) {
    const message = `no words were recognized in ${silent} of ${segments.length} segments`;
    warnings.push({ code: 'SPEECH_NOT_RECOGNIZED', message });
  }
  return warnings;
}
