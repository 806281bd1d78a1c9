/** What a recognizer said of a segment, as it is written down: in journals, and by parts of split jobs. */
import type { JournalResult } from '../../core/job/journal-line.ts';
import type { TaskResult } from '../../runtime/engine.ts';

export function toStored({ tokens, probabilities, pieces, ...result }: TaskResult): JournalResult {
  return {
    ...result,
    pieces: pieces.map((piece) => ({ ...piece, words: [...piece.words] })),
    tokens: [...tokens],
    probabilities: [...probabilities],
  };
}

export function fromStored({ tokens, probabilities, ...result }: JournalResult): TaskResult {
  return {
    ...result,
    tokens: Int32Array.from(tokens),
    probabilities: Float32Array.from(probabilities),
  };
}
