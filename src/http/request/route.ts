/** A route: its documentation and its handler. One declaration is registered, and documented in the OpenAPI document. */
import type { Request, Response } from 'express';
import type { Logger } from '../../core/logger.ts';
import type { RouteDoc, Schema } from '../../core/openapi.ts';
import type { Caller } from '../auth/caller.ts';
import type { Services } from '../services.ts';

/** The output of a schema; undefined without one. */
export type Parsed<Part extends Schema | undefined> = Part extends Schema
  ? Part['_zod']['output']
  : undefined;

export interface RouteRequest<Params, Query, Headers, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly headers: Headers;
  /** The checked body, when it came as JSON. A body of another type is read from `req`, and this is undefined. */
  readonly body: Body;
  readonly services: Services;
  readonly caller: Caller;
  /** Its lines have the request's id. */
  readonly logger: Logger;
  /** Aborts when the client has gone. A handler that streams without end must also watch `services.closing`. */
  readonly signal: AbortSignal;
  readonly req: Request;
  readonly res: Response;
}

export interface Reply {
  readonly status: number;
  /** The body, sent as JSON. */
  readonly json?: unknown;
  /** The body, sent as it is with `type`. */
  readonly text?: string;
  /** @defaultValue 'text/plain' */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A handler returns this when it has written the response itself. */
export const STREAMED = Symbol('the handler wrote the response');

export interface RouteDeclaration<
  P extends Schema | undefined,
  Q extends Schema | undefined,
  H extends Schema | undefined,
  B extends Schema | undefined,
> extends RouteDoc {
  readonly params?: P & Schema;
  readonly query?: Q & Schema;
  readonly headers?: H & Schema;
  readonly body?: B & Schema;
  /** The limit for a JSON body. @defaultValue 1 MiB */
  readonly maxBodyBytes?: number;
  handle(
    request: RouteRequest<Parsed<P>, Parsed<Q>, Parsed<H>, Parsed<B>>,
  ): Promise<Reply | typeof STREAMED> | Reply | typeof STREAMED;
}

/** A route without the types of its schemas, so that all routes fit in one list. */
export interface Route extends RouteDoc {
  readonly maxBodyBytes?: number;
  handle(
    // biome-ignore lint/suspicious/noExplicitAny: each declaration was checked against its own schemas
    request: RouteRequest<any, any, any, any>,
  ): Promise<Reply | typeof STREAMED> | Reply | typeof STREAMED;
}

export function route<
  P extends Schema | undefined = undefined,
  Q extends Schema | undefined = undefined,
  H extends Schema | undefined = undefined,
  B extends Schema | undefined = undefined,
>(declaration: RouteDeclaration<P, Q, H, B>): Route {
  return declaration;
}
