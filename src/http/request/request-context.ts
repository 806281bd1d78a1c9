/** What belongs to one request from its first middleware on: its id, its logger, its end. */
import { randomUUID } from 'node:crypto';
import type { RequestHandler, Response } from 'express';
import type { Logger } from '../../core/logger.ts';
import { type Caller, NOBODY } from '../auth/caller.ts';
import type { Services } from '../services.ts';

export interface RequestContext {
  readonly requestId: string;
  /** Grows with what is known of the request. */
  logger: Logger;
  /** Known once the route has let the request in. */
  caller: Caller;
  /** Whether what goes wrong is told in OpenAI's way, too. */
  isOpenAi: boolean;
  /** Aborts when the client has gone before the end of the response, or the server's deadline for its end has passed. */
  readonly signal: AbortSignal;
}

/** Ids of callers are taken over when they are harmless in a log. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

const contexts = new WeakMap<Response, RequestContext>();

export function requestContext(res: Response): RequestContext {
  const context = contexts.get(res);
  if (context === undefined) throw new TypeError('the request has no context yet');
  return context;
}

/** From here on the request's log lines carry the job's id. */
export function logJob(res: Response, jobId: string): void {
  const context = requestContext(res);
  context.logger = context.logger.child({ jobId });
}

/** The first middleware. */
export function openRequest({ logger, now }: Services): RequestHandler {
  return (req, res, next) => {
    const sent = req.get('x-request-id') ?? '';
    const requestId = REQUEST_ID.test(sent) ? sent : randomUUID();
    const gone = new AbortController();
    const startedAt = now();
    contexts.set(res, {
      requestId,
      logger: logger.child({ requestId }),
      caller: NOBODY,
      isOpenAi: false,
      signal: gone.signal,
    });
    res.set('X-Request-Id', requestId);
    res.once('close', () => {
      if (!res.writableFinished) gone.abort();
      const { statusCode: status } = res;
      const line = { method: req.method, path: req.path, status, ms: now() - startedAt };
      requestContext(res).logger.info(
        line,
        res.writableFinished ? 'request' : 'request broken off',
      );
    });
    next();
  };
}
