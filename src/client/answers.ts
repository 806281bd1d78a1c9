/** What comes back from the server: answers, lines and errors, checked against the schemas that it documents. */
import { type ErrorCode, failureToError, isErrorCode, WavepoolError } from '../core/errors.ts';
import { ControlFailedError } from '../core/http/control-api.ts';
import { InvalidRequestError, ProblemDetails } from '../core/http/problem.ts';
import { parseJson, parseLeniently } from '../core/lenient-parse.ts';
import type { Schema } from '../core/openapi.ts';

/** So much of a body that is no problem is told: it helps to find out whose it is. */
const MOST_TEXT = 200;

/** What programs between client and server answer with: they have no codes. */
const CODE_OF_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: 'INVALID_REQUEST',
  401: 'AUTH_REQUIRED',
  403: 'FORBIDDEN',
  404: 'ROUTE_NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  413: 'REQUEST_TOO_LARGE',
  415: 'MEDIA_TYPE_UNSUPPORTED',
  429: 'QUEUE_FULL',
  502: 'SERVER_UNREACHABLE',
  503: 'SERVER_UNREACHABLE',
  504: 'SERVER_UNREACHABLE',
};

/** Reads a JSON answer; members that this version does not know are left out. */
export function answerAs<Answer extends Schema>(
  schema: Answer,
): (response: Response) => Promise<Answer['_zod']['output']> {
  return async (response) => parseLeniently(schema, parseAnswer(await response.text()), 'answer');
}

/** For requests whose answer says nothing but that they were done. */
export async function noAnswer(response: Response): Promise<void> {
  await response.body?.cancel();
}

/** An answer of another server may be anything. */
function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WavepoolError('INTERNAL', 'the server answered with something that is no JSON', {
      cause,
    });
  }
}

/** The items of a listing, each page asked for when the caller has had those before. */
export async function* itemsOfPages<Item>(
  pageAt: (cursor: string | undefined) => Promise<{
    readonly items: readonly Item[];
    readonly nextCursor: string | null;
  }>,
): AsyncGenerator<Item, void> {
  let cursor: string | undefined;
  do {
    const page = await pageAt(cursor);
    yield* page.items;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

/**
 * JSON lines as they arrive.
 * @throws {WavepoolError} SERVER_UNREACHABLE when the stream breaks off, INTERNAL for what is no JSON
 */
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

/** The error of a response that is not one of success; its `cause` is the whole problem, with the id of the request. */
export async function errorOfResponse(response: Response): Promise<WavepoolError> {
  const text = await response.text();
  const raw = parseJson(text);
  const told = codeAndDetail(raw);
  if (told === undefined) {
    const code = CODE_OF_STATUS[response.status] ?? 'INTERNAL';
    const words = text.replace(/\s+/g, ' ').trim().slice(0, MOST_TEXT);
    return new WavepoolError(code, `HTTP ${response.status} ${words}`.trim(), { cause: raw });
  }
  const { code, detail } = told;
  // A newer server may have codes that this client does not know: the text is kept.
  if (!isErrorCode(code))
    return new WavepoolError('INTERNAL', `${code}: ${detail}`, { cause: raw });
  const { errors, outcomes } = membersOf(raw);
  if (outcomes !== undefined) return new ControlFailedError({ code, message: detail }, outcomes);
  const fields = code === 'INVALID_REQUEST' ? errors : undefined;
  if (fields !== undefined) {
    return new InvalidRequestError(detail.split(': ', 1)[0] ?? '', fields, { cause: raw });
  }
  const { detail: bare } = failureToError(`${code}: ${detail}`);
  return new WavepoolError(code, bare, { cause: raw });
}

function codeAndDetail(raw: unknown): { code: string; detail: string } | undefined {
  if (typeof raw !== 'object' || raw === null || !('code' in raw)) return undefined;
  const { code } = raw;
  const detail = 'detail' in raw ? raw.detail : '';
  return typeof code === 'string' && typeof detail === 'string' ? { code, detail } : undefined;
}

function membersOf(raw: unknown): Pick<ProblemDetails, 'errors' | 'outcomes'> {
  try {
    return parseLeniently(ProblemDetails, raw, 'problem');
  } catch {
    // Whatever else it tells, its code and detail are known.
    return {};
  }
}

/** As the error of a server that cannot be reached, unless it is an error of our own. */
export function unreachable(thrown: unknown): WavepoolError {
  if (thrown instanceof WavepoolError) return thrown;
  // `fetch` says only that it failed; why is in the cause.
  const root = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  const code = root instanceof Error && 'code' in root ? `${String(root.code)}: ` : '';
  const words = root instanceof Error ? root.message : String(root);
  return new WavepoolError('SERVER_UNREACHABLE', code + words, { cause: thrown });
}
