/** Recognizes a segment in which a detector found speech. */
import type { TaskOptions, TaskResult } from '../../runtime/engine.ts';

export interface FoundWords {
  readonly result: TaskResult;
  /** Whether the recognizer first found no words, and was then asked for the likeliest ones. */
  readonly guessed: boolean;
}

/**
 * Where there is speech there are words: when none are found, the recognizer is asked again for the likeliest.
 * @param options of both attempts
 * @param recognize runs the segment with these options.
 */
export async function findWords(
  options: TaskOptions,
  recognize: (options: TaskOptions) => Promise<TaskResult>,
): Promise<FoundWords> {
  const result = await recognize(options);
  if (result.text !== '') return { result, guessed: false };
  return { result: await recognize({ ...options, suppressBlank: true }), guessed: true };
}
