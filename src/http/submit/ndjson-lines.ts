/** Bodies of JSON lines, read as they come. */
import { InvalidRequestError } from '../../core/http/problem.ts';

export interface JsonLine {
  /** From 1; empty lines count and are left out. */
  readonly number: number;
  readonly value: unknown;
}

const MAX_LINE_BYTES = 65_536;
const NEWLINE = 0x0a;

/**
 * Holds one line at a time.
 * @throws {InvalidRequestError}
 */
export async function* readJsonLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<JsonLine> {
  let number = 0;
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of bytes) {
    let start = 0;
    const data = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    for (let end = data.indexOf(NEWLINE); end !== -1; end = data.indexOf(NEWLINE, start)) {
      number += 1;
      yield* parseLine(data.subarray(start, end), number);
      start = end + 1;
    }
    rest = data.subarray(start);
    assertLength(rest, number + 1);
  }
  yield* parseLine(rest, number + 1);
}

function* parseLine(line: Buffer, number: number): Generator<JsonLine> {
  assertLength(line, number);
  const text = line.toString('utf8').trim();
  if (text === '') return;
  try {
    yield { number, value: JSON.parse(text) };
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new InvalidRequestError('body', [{ path: `line ${number}`, message: 'it is no JSON' }], {
      cause,
    });
  }
}

function assertLength(line: Buffer, number: number): void {
  if (line.length <= MAX_LINE_BYTES) return;
  const message = `it has more than ${MAX_LINE_BYTES} bytes`;
  throw new InvalidRequestError('body', [{ path: `line ${number}`, message }]);
}
