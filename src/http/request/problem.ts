/** Everything that goes wrong becomes problem details (RFC 9457) with a code of the error table. */

import type { ErrorRequestHandler, Request, Response } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import { openAiErrorOf, type ProblemDetails, problemOf } from '../../core/http/problem.ts';
import type { Services } from '../services.ts';
import { requestContext } from './request-context.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** How soon a client should try again. */
const RETRY_AFTER_SECONDS = 5;

/** The last handler of the app. Express tells it from others by its four parameters. */
export function problemHandler({ metrics }: Services): ErrorRequestHandler {
  return (thrown, req, res, _next) => {
    const error = toRequestError(thrown);
    metrics.countRefusal(error.code);
    if (isStillSending(req)) {
      // The rest of the body is of no use to anybody, and may have no end: the connection ends with the answer.
      res.set('Connection', 'close');
      req.resume();
    }
    tell(error, thrown, res);
  };
}

function isStillSending({ complete, headers }: Request): boolean {
  const hasBody =
    headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
  return hasBody && !complete;
}

function tell(error: WavepoolError, thrown: unknown, res: Response): void {
  const { requestId, logger, isOpenAi } = requestContext(res);
  if (error.code === 'INTERNAL') logger.error({ err: thrown }, 'request failed unexpectedly');
  else logger.debug({ code: error.code }, error.message);
  if (res.headersSent) {
    // The answer has begun and cannot be taken back: breaking it off is the only honest end.
    res.destroy();
    return;
  }
  const problem = problemOf(error, requestId);
  // Their clients would else repeat any request that fails with 409 or 5xx.
  if (isOpenAi) res.set('X-Should-Retry', String(error.retryable));
  sendProblem(res, isOpenAi ? { ...problem, error: openAiErrorOf(error) } : problem);
}

export function sendProblem(res: Response, problem: ProblemDetails): void {
  if (problem.status === 429 || problem.status === 503)
    res.set('Retry-After', String(RETRY_AFTER_SECONDS));
  if (problem.status === 401) res.set('WWW-Authenticate', 'Bearer realm="wavepool"');
  // Types of the problem must not be taken over from a half-made answer.
  res.removeHeader('Content-Disposition');
  res.status(problem.status).type(PROBLEM_TYPE).send(JSON.stringify(problem));
}

/** What body-parser and Express throw carries a status and a type; everything else unknown is internal. */
function toRequestError(thrown: unknown): WavepoolError {
  if (thrown instanceof WavepoolError) return thrown;
  if (thrown instanceof Error && 'status' in thrown && 'type' in thrown) {
    const options = { cause: thrown };
    switch (thrown.type) {
      case 'entity.too.large':
        return new WavepoolError('REQUEST_TOO_LARGE', thrown.message, options);
      case 'charset.unsupported':
      case 'encoding.unsupported':
        return new WavepoolError('MEDIA_TYPE_UNSUPPORTED', thrown.message, options);
      case 'request.aborted':
        return new WavepoolError('CANCELLED', 'the client has gone', options);
      default:
        if (thrown.status === 400)
          return new WavepoolError(
            'INVALID_REQUEST',
            `the body is no JSON: ${thrown.message}`,
            options,
          );
    }
  }
  // A path with a broken percent escape.
  if (thrown instanceof URIError) return new WavepoolError('INVALID_REQUEST', thrown.message);
  return new WavepoolError('INTERNAL', 'see the log of the server', { cause: thrown });
}
