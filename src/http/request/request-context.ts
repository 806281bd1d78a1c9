/** What the server knows of one request: its id, its logger, its caller, and whether its client is still there. */
import { randomUUID } from 'node:crypto';
import type { RequestHandler, Response } from 'express';
import type { Logger } from '../../core/logger.ts';
import { type Caller, NOBODY } from '../auth/caller.ts';
import type { Services } from '../services.ts';

export interface RequestContext {
  readonly requestId: string;
  /** Replaced by a child logger when more is known, such as the id of the job. */
  logger: Logger;
  /** NOBODY until the request was authorized. */
  caller: Caller;
  /** Whether problems also have the members that OpenAI's clients read. */
  isOpenAi: boolean;
  /** Aborts when the connection closes before the response has ended. */
  readonly signal: AbortSignal;
}

/** A client's own request id is used when it is safe to log. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

const contexts = new WeakMap<Response, RequestContext>();

export function requestContext(res: Response): RequestContext {
  const context = contexts.get(res);
  if (context === undefined) throw new TypeError('the request has no context yet');
  return context;
}

/** Adds the job's id to the later log lines of the request. */
export function logJob(res: Response, jobId: string): void {
  const context = requestContext(res);
  context.logger = context.logger.child({ jobId });
}

/** The first middleware: it opens the context, and logs the request when it ends. */
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
