/** What a response that is not one of success says, as an error with the server's own code. */

import { type ErrorCode, failureToError, isErrorCode, WavepoolError } from '../core/errors.ts';
import { ControlFailedError } from '../core/http/control-api.ts';
import { InvalidRequestError, ProblemDetails } from '../core/http/problem.ts';
import { parseLeniently } from '../core/lenient-parse.ts';

/** Of a body that is no problem as much is told as helps to find out whose it is. */
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

/** The error that the body tells; its `cause` is the whole problem, with the id of the request. */
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
