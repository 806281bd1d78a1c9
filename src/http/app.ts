/** The Express app: what each request passes through before it reaches the handler of its route, and after. */
import express, { type Express, type Request, type RequestHandler, type Response } from 'express';
import helmet from 'helmet';
import { WavepoolError } from '../core/errors.ts';
import { parseRequestPart } from '../core/http/problem.ts';
import { authenticate } from './auth/authenticate.ts';
import { assertAllowed, NOBODY } from './auth/caller.ts';
import { BOARD_PATH } from './board/board-adapter.ts';
import { queueBoard } from './board/queue-board.ts';
import { problemHandler } from './request/problem.ts';
import { openRequest, requestContext } from './request/request-context.ts';
import { type Reply, type Route, STREAMED } from './request/route.ts';
import { ROUTES } from './route-table.ts';
import type { Services } from './services.ts';

export function createApp(services: Services): Express {
  const app = express();
  app.disable('x-powered-by');
  // A parameter that comes twice becomes an array, which no schema takes. Brackets in names have no meaning.
  app.set('query parser', 'simple');
  // Results change only when a job is retried: ETags would save little and cost a hash of each answer.
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
  for (const route of ROUTES) {
    app[route.method](
      route.path,
      authorize(route, services),
      ...readBody(route),
      handle(route, services),
    );
  }
  for (const [path, methods] of methodsByPath(ROUTES)) app.all(path, refuseMethod(methods));
  app.use(BOARD_PATH, queueBoard(services));
  app.use((req) => {
    throw new WavepoolError('ROUTE_NOT_FOUND', `${req.method} ${req.path}`);
  });
  app.use(problemHandler(services));
  return app;
}

/** Pages use files of this server only. A page plays audio from a blob. */
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

/** Pages of the origins in the settings may call with an API key. They may never use a cookie. */
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

/** A connection that is kept alive can bring another request when the server takes no more connections. */
function refuseWhenClosing({ closing }: Services): RequestHandler {
  return (_req, res, next) => {
    if (!closing.aborted) return next();
    res.set('Connection', 'close');
    throw new WavepoolError('SHUTTING_DOWN', 'the server is ending');
  };
}

/** Runs before the body is read, so that nothing of a stranger is kept. */
function authorize(route: Route, services: Services): RequestHandler {
  return async (req, res, next) => {
    requestContext(res).isOpenAi = route.isOpenAi === true;
    const caller = route.scope === 'public' ? NOBODY : await authenticate(req, services);
    assertAllowed(caller, route);
    requestContext(res).caller = caller;
    next();
  };
}

const JSON_TYPE = 'application/json';
/** The limit for JSON bodies of routes that declare none. */
const MAX_BODY_BYTES = 1024 ** 2;

function readBody(route: Route): RequestHandler[] {
  if (route.body === undefined && route.consumes === undefined) return [];
  const types = route.consumes ?? [JSON_TYPE];
  const checkType: RequestHandler = (req, _res, next) => {
    if (types.includes('*/*') || isEmpty(req) || req.is([...types]) !== false) return next();
    throw new WavepoolError('MEDIA_TYPE_UNSUPPORTED', `send ${types.join(' or ')}`);
  };
  const limit = route.maxBodyBytes ?? MAX_BODY_BYTES;
  return types.includes(JSON_TYPE) ? [checkType, express.json({ limit })] : [checkType];
}

/** An empty body has no type. Whether it is allowed is decided by the schema. */
function isEmpty({ headers }: Request): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
}

/** Checks the parts of the request, calls the handler of the route and sends its reply. */
function handle(route: Route, services: Services): RequestHandler {
  const { params, query, headers, body } = route;
  return async (req, res) => {
    const { logger, signal, caller } = requestContext(res);
    const isJson =
      body !== undefined &&
      (route.consumes === undefined || isEmpty(req) || req.is(JSON_TYPE) !== false);
    const request = {
      params: params && parseRequestPart(params, req.params, 'path'),
      query: query && parseRequestPart(query, req.query, 'query'),
      headers: headers && parseRequestPart(headers, req.headers, 'headers'),
      body: isJson ? parseRequestPart(body, req.body, 'body') : undefined,
      services,
      caller,
      logger,
      signal,
      req,
      res,
    };
    const reply = await services.tracing.continued(req.headers, async () => route.handle(request));
    if (reply !== STREAMED) send(res, reply);
  };
}

function send(res: Response, { status, json, text, type = 'text/plain', headers }: Reply): void {
  res.status(status).set(headers ?? {});
  if (json !== undefined) res.type(JSON_TYPE).send(JSON.stringify(json));
  else if (text !== undefined) res.type(type).send(text);
  else res.end();
}

function methodsByPath(routes: readonly Route[]): Map<string, string[]> {
  const methods = new Map<string, string[]>();
  for (const { path, method } of routes) {
    const more = method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()];
    methods.set(path, [...(methods.get(path) ?? []), ...more]);
  }
  return methods;
}

function refuseMethod(methods: readonly string[]): RequestHandler {
  return (req, res) => {
    res.set('Allow', [...methods, 'OPTIONS'].join(', '));
    if (req.method !== 'OPTIONS') throw new WavepoolError('METHOD_NOT_ALLOWED', req.method);
    res.status(204).end();
  };
}
