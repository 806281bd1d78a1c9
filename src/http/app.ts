/** The Express app: what every request passes through, then the routes, then what is left. */
import express, { type Express, type RequestHandler } from 'express';
import helmet from 'helmet';
import { WavepoolError } from '../core/errors.ts';
import { BOARD_PATH } from './board/board-adapter.ts';
import { queueBoard } from './board/queue-board.ts';
import { registerRoutes } from './register-routes.ts';
import { problemHandler } from './request/problem.ts';
import { openRequest } from './request/request-context.ts';
import { ROUTES } from './route-table.ts';
import { pageRoutes } from './routes/pages.ts';
import type { Services } from './services.ts';

export function createApp(services: Services): Express {
  const app = express();
  app.disable('x-powered-by');
  // A parameter that comes twice is an array, which no schema takes; nothing is read out of brackets.
  app.set('query parser', 'simple');
  // Transcripts change under one address only when a job is retried: validators would save little and cost a hash each.
  app.set('etag', false);
  app.use(openRequest(services));
  app.use(
    helmet({
      contentSecurityPolicy: { directives: CONTENT_POLICY },
      strictTransportSecurity: false,
    }),
  );
  app.use(allowOrigins(services));
  app.use(refuseWhenClosing(services));
  registerRoutes(app, [...ROUTES, ...pageRoutes], services);
  app.use(BOARD_PATH, queueBoard(services));
  app.use((req) => {
    throw new WavepoolError('ROUTE_NOT_FOUND', `${req.method} ${req.path}`);
  });
  app.use(problemHandler(services));
  return app;
}

/** Pages use their own files only; a transcript's audio is played from a blob. */
const CONTENT_POLICY = {
  defaultSrc: ["'self'"],
  fontSrc: ["'self'"],
  formAction: ["'self'"],
  frameAncestors: ["'none'"],
  mediaSrc: ["'self'", 'blob:'],
  styleSrc: ["'self'"],
  upgradeInsecureRequests: null,
} satisfies Record<string, string[] | null>;

const EXPOSED_HEADERS = 'Location, Retry-After, X-Request-Id';
const ALLOWED_HEADERS =
  'Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-API-Key, X-Request-Id';

/** Pages of other origins may call with an API key when a setting names them; cookies are never theirs. */
function allowOrigins({ settings }: Services): RequestHandler {
  return (req, res, next) => {
    const origin = req.get('origin');
    if (settings.allowedOrigins.length > 0) res.vary('Origin');
    if (origin === undefined || !settings.allowedOrigins.includes(origin)) return next();
    res.set('Access-Control-Allow-Origin', origin);
    res.set('Access-Control-Expose-Headers', EXPOSED_HEADERS);
    if (req.method !== 'OPTIONS') return next();
    res.set('Access-Control-Allow-Methods', 'GET, POST, PUT, DELETE');
    res.set('Access-Control-Allow-Headers', ALLOWED_HEADERS);
    res.set('Access-Control-Max-Age', '600');
    res.status(204).end();
  };
}

/** Connections that are kept alive bring requests even when no new ones are taken. */
function refuseWhenClosing({ closing }: Services): RequestHandler {
  return (_req, res, next) => {
    if (!closing.aborted) return next();
    res.set('Connection', 'close');
    throw new WavepoolError('SHUTTING_DOWN', 'the server is ending');
  };
}
