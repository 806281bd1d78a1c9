/** Turns every error into problem details (RFC 9457) with a code of the error table. */

import type { ErrorRequestHandler, Request, Response } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import { openAiErrorOf, type ProblemDetails, problemOf } from '../../core/http/problem.ts';
import type { Services } from '../services.ts';
import { requestContext } from './request-context.ts';

const PROBLEM_TYPE = 'application/problem+json';

/** Tells clients how soon to try again. */
const RETRY_AFTER_SECONDS = 5;

/** The last handler of the app. Its four parameters mark it as an error handler for Express. */
export function problemHandler({ metrics }: Services): ErrorRequestHandler {
  return (thrown, req, res, _next) => {
    const error = toRequestError(thrown);
    metrics.countRefusal(error.code);
    if (isStillSending(req)) {
      // Nobody needs the rest of the body, and it may have no end. So the connection ends with the answer.
      res.set('Connection', 'close');
      req.resume();
    }
    answer(error, thrown, res);
  };
}

function isStillSending({ complete, headers }: Request): boolean {
  const hasBody =
    headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
  return hasBody && !complete;
}

function answer(error: WavepoolError, thrown: unknown, res: Response): void {
  const { requestId, logger, isOpenAi } = requestContext(res);
  if (error.code === 'INTERNAL') logger.error({ err: thrown }, 'request failed unexpectedly');
  else logger.debug({ code: error.code }, error.message);
  if (res.headersSent) {
    // The answer has begun and cannot be changed, so the connection is broken to show that it is not complete.
    res.destroy();
    return;
  }
  const problem = problemOf(error, requestId);
  // Without this header OpenAI's clients would repeat any request that fails with 409 or 5xx.
  if (isOpenAi) res.set('X-Should-Retry', String(error.retryable));
  sendProblem(res, isOpenAi ? { ...problem, error: openAiErrorOf(error) } : problem);
}

function sendProblem(res: Response, problem: ProblemDetails): void {
  if (problem.status === 429 || problem.status === 503)
    res.set('Retry-After', String(RETRY_AFTER_SECONDS));
  if (problem.status === 401) res.set('WWW-Authenticate', 'Bearer realm="wavepool"');
  // The handler may have set this header for an answer that was never sent.
  res.removeHeader('Content-Disposition');
  res.status(problem.status).type(PROBLEM_TYPE).send(JSON.stringify(problem));
}

/** Errors of body-parser and Express have a status and a type. Every other unknown error is internal. */
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
  // Express throws this for a path with a broken percent escape.
  if (thrown instanceof URIError) return new WavepoolError('INVALID_REQUEST', thrown.message);
  return new WavepoolError('INTERNAL', 'see the log of the server', { cause: thrown });
}
