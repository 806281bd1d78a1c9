import { z } from 'zod';
import { type ErrorCode, WavepoolError } from './errors.ts';

/**
 * The value, checked and completed.
 * @param what names the value, for the message
 * @throws {WavepoolError} INVALID_REQUEST, unless another code is given
 */
export function parse<Schema extends z.ZodType>(
  schema: Schema,
  raw: unknown,
  what: string,
  code: ErrorCode = 'INVALID_REQUEST',
): z.output<Schema> {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const { error } = parsed;
  throw new WavepoolError(code, `${what}: ${z.prettifyError(error)}`, { cause: error });
}
