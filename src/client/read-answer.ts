/** What comes back, checked against the schemas that the server documents. */
import { WavepoolError } from '../core/errors.ts';
import { parseLeniently } from '../core/lenient-parse.ts';
import type { Schema } from '../core/openapi.ts';

/** Reads a JSON answer; members that this version does not know are left out. */
export function answerAs<Answer extends Schema>(
  schema: Answer,
): (response: Response) => Promise<Answer['_zod']['output']> {
  return async (response) => parseLeniently(schema, parseJson(await response.text()), 'answer');
}

/** For requests whose answer says nothing but that they were done. */
export async function noAnswer(response: Response): Promise<void> {
  await response.body?.cancel();
}

/** An answer of another server may be anything. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WavepoolError('INTERNAL', 'the server answered with something that is no JSON', {
      cause,
    });
  }
}
