/** JSON lines as they arrive. */
import { WavepoolError } from '../core/errors.ts';
import { unreachable } from './transport.ts';

/** @throws {WavepoolError} SERVER_UNREACHABLE when the stream breaks off, INTERNAL for what is no JSON */
export async function* readLines(
  { body }: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for await (const chunk of body ?? []) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') yield JSON.parse(line);
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof SyntaxError)) throw unreachable(error);
    throw new WavepoolError('INTERNAL', 'the server sent a line that is no JSON', { cause: error });
  }
  if (rest !== '') throw new WavepoolError('SERVER_UNREACHABLE', 'the last line is not complete');
}
