/** A route: what the documentation says of it, and what it does. One declaration is both registered and documented. */
import type { Request, Response } from 'express';
import type { Logger } from '../../core/logger.ts';
import type { RouteDoc, Schema } from '../../core/openapi.ts';
import type { Caller } from '../auth/caller.ts';
import type { Services } from '../services.ts';

/** What a schema lets through; nothing without a schema. */
export type Parsed<Part extends Schema | undefined> = Part extends Schema
  ? Part['_zod']['output']
  : undefined;

export interface RouteRequest<Params, Query, Headers, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly headers: Headers;
  /** Checked when it came as JSON. Of a body of another type `req` is the stream, and this is undefined. */
  readonly body: Body;
  readonly services: Services;
  readonly caller: Caller;
  /** Carries the request's id. */
  readonly logger: Logger;
  /** Aborts when the client has gone. What streams for ever watches `services.closing`, too. */
  readonly signal: AbortSignal;
  readonly req: Request;
  readonly res: Response;
}

export interface Reply {
  readonly status: number;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is, with `type`. */
  readonly text?: string;
  /** @defaultValue 'text/plain' */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** For handlers that have written to `res` themselves. */
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

/** A route whose schemas are no longer told apart. */
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
