/** Registers routes in an Express app exactly as they are declared. */
import express, { type Express, type Request, type RequestHandler, type Response } from 'express';
import { WavepoolError } from '../core/errors.ts';
import { parseRequestPart } from '../core/http/problem.ts';
import { authenticate } from './auth/authenticate.ts';
import { assertAllowed, NOBODY } from './auth/caller.ts';
import { requestContext } from './request/request-context.ts';
import { type Reply, type Route, STREAMED } from './request/route.ts';
import type { Services } from './services.ts';

const JSON_TYPE = 'application/json';

export function registerRoutes(app: Express, routes: readonly Route[], services: Services): void {
  for (const route of routes) {
    app[route.method](
      route.path,
      authorize(route, services),
      ...readBody(route, services),
      run(route, services),
    );
  }
  for (const [path, methods] of methodsByPath(routes)) app.all(path, refuseMethod(methods));
}

/** Before the body is read: a stranger sends nothing that is kept. */
function authorize(route: Route, services: Services): RequestHandler {
  return async (req, res, next) => {
    requestContext(res).isOpenAi = route.isOpenAi === true;
    const caller = route.scope === 'public' ? NOBODY : await authenticate(req, services);
    assertAllowed(caller, route);
    requestContext(res).caller = caller;
    next();
  };
}

function readBody(route: Route, services: Services): RequestHandler[] {
  if (route.body === undefined && route.consumes === undefined) return [];
  const types = route.consumes ?? [JSON_TYPE];
  const checkType: RequestHandler = (req, _res, next) => {
    if (types.includes('*/*') || isEmpty(req) || req.is([...types]) !== false) return next();
    throw new WavepoolError('MEDIA_TYPE_UNSUPPORTED', `send ${types.join(' or ')}`);
  };
  const limit = route.maxBodyBytes ?? services.settings.maxBodyBytes;
  return types.includes(JSON_TYPE) ? [checkType, express.json({ limit })] : [checkType];
}

/** Nothing is of no type; whether it is enough is for the schema to say. */
function isEmpty({ headers }: Request): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
}

function run(route: Route, services: Services): RequestHandler {
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

export function send(
  res: Response,
  { status, json, text, type = 'text/plain', headers }: Reply,
): void {
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
