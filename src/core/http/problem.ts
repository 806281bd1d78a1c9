/** Errors as the HTTP interface tells them, and what a schema found as one of them. */
import { z } from 'zod';
import { ERROR_CODES, errorRow, WavepoolError } from '../errors.ts';
import { apiSchemas } from '../openapi.ts';
import { ControlOutcome } from '../worker/control.ts';
import { ControlFailedError } from './control-api.ts';

/** What is wrong with one field of a request. */
export const FieldError = z.strictObject({
  /** `options.vad.threshold`, `items[3].path`; empty for the whole. */
  path: z.string(),
  message: z.string(),
});
export type FieldError = z.infer<typeof FieldError>;

/** What OpenAI's clients look for in an answer that is an error. */
export const OpenAiError = z
  .strictObject({
    message: z.string(),
    type: z.string(),
    /** The field of the request that is wrong. */
    param: z.string().nullable(),
    code: z.enum(ERROR_CODES),
  })
  .register(apiSchemas, { id: 'OpenAiError' });
export type OpenAiError = z.infer<typeof OpenAiError>;

/** RFC 9457, with the error table's facts beside the standard members. */
export const ProblemDetails = z
  .strictObject({
    type: z.string().meta({ description: 'urn:wavepool:error:CODE' }),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string().meta({ description: 'urn:wavepool:request:ID; the log has the same id' }),
    code: z.enum(ERROR_CODES),
    retryable: z.boolean(),
    errors: z.array(FieldError).optional(),
    outcomes: z
      .array(ControlOutcome)
      .optional()
      .meta({ description: 'of each worker, when none did what it was told' }),
    error: OpenAiError.optional().meta({ description: "on routes that OpenAI's clients use" }),
  })
  .register(apiSchemas, { id: 'Problem' });
export type ProblemDetails = z.infer<typeof ProblemDetails>;

/** A request that a schema refused. */
export class InvalidRequestError extends WavepoolError {
  readonly fields: readonly FieldError[];

  constructor(what: string, fields: readonly FieldError[], options?: ErrorOptions) {
    const list = fields.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
    super('INVALID_REQUEST', `${what}: ${list.join('; ')}`, options);
    this.fields = fields;
  }
}

/**
 * A part of a request, checked and completed.
 * @param what the part's name, for the message
 * @throws {InvalidRequestError}
 */
export function parseRequestPart<Part extends z.ZodType>(
  schema: Part,
  raw: unknown,
  what: string,
): z.output<Part> {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const fields = parsed.error.issues.map((issue) => ({
    path: z.core.toDotPath(issue.path),
    message: issue.message,
  }));
  throw new InvalidRequestError(what, fields, { cause: parsed.error });
}

export function openAiErrorOf(error: WavepoolError): OpenAiError {
  const { message, type, code } = error;
  const field = error instanceof InvalidRequestError ? error.fields[0]?.path : undefined;
  const param = code === 'MODEL_UNKNOWN' ? 'model' : (field ?? null);
  return { message, type, param, code };
}

export function problemOf(error: WavepoolError, requestId: string): ProblemDetails {
  const { code, httpStatus, retryable } = error;
  return {
    type: `urn:wavepool:error:${code}`,
    title: errorRow(code).message.replace(/:? ?%s$/, '') || 'invalid request',
    status: httpStatus,
    detail: error.message,
    instance: `urn:wavepool:request:${requestId}`,
    code,
    retryable,
    ...(error instanceof InvalidRequestError ? { errors: [...error.fields] } : {}),
    ...(error instanceof ControlFailedError ? { outcomes: [...error.outcomes] } : {}),
  };
}
