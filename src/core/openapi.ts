/** The OpenAPI 3.1 document, generated from the declarations from which the routes are registered. */
import { z } from 'zod';
import { type ErrorCode, errorRow } from './errors.ts';

/** Schemas that the document names; the others are written out where they are used. */
export const apiSchemas = z.registry<{ id: string }>();

export type Schema = z.ZodType;

export type HttpMethod = 'get' | 'post' | 'put' | 'delete';

/** What a caller must be allowed to do; `public` is open to everybody. */
export type RouteScope = 'public' | 'read' | 'submit' | 'manage';

export interface ResponseDoc {
  readonly description: string;
  /** @defaultValue 'application/json' */
  readonly type?: string;
  /** Without it, a body is free text, or there is none for status 204. */
  readonly schema?: Schema;
  readonly headers?: Readonly<Record<string, string>>;
}

/** All that can be said about a route without running it. */
export interface RouteDoc {
  readonly method: HttpMethod;
  /** With `:name` for parameters. */
  readonly path: string;
  /** camelCase, unique: names the operation in generated clients. */
  readonly name: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly scope: RouteScope;
  readonly params?: Schema;
  readonly query?: Schema;
  /** Names in lower case. */
  readonly headers?: Schema;
  readonly body?: Schema;
  /**
   * Media types of the body. JSON is parsed and checked before the handler runs; of any other type the handler gets the
   * stream. @defaultValue ['application/json']
   */
  readonly consumes?: readonly string[];
  readonly responses: Readonly<Record<number, ResponseDoc>>;
  /** Its problems carry OpenAI's `error`, too. */
  readonly isOpenAi?: boolean;
  /** Besides those that every route may answer with. */
  readonly errors?: readonly ErrorCode[];
}

/** What the server itself sends, to addresses that clients give it. */
export interface WebhookDoc {
  /** The type of the message. */
  readonly name: string;
  readonly summary: string;
  readonly schema: Schema;
}

export interface OpenApiInfo {
  readonly title: string;
  readonly version: string;
  readonly description: string;
}

export type JsonObject = { [name: string]: unknown };

type Direction = 'input' | 'output';

const COMPONENTS = '#/components/schemas/';
/** Every route may answer with these. */
const COMMON_ERRORS: readonly ErrorCode[] = ['REDIS_UNAVAILABLE', 'SHUTTING_DOWN', 'INTERNAL'];

export function openApiDocument(
  routes: readonly RouteDoc[],
  info: OpenApiInfo,
  webhooks: readonly WebhookDoc[] = [],
): JsonObject {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info,
    paths,
    webhooks: Object.fromEntries(webhooks.map((each) => [each.name, { post: message(each) }])),
    components: {
      schemas: componentSchemas(routes),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      },
    },
  };
}

/** A schema as JSON Schema, with references to the named ones. */
function jsonSchema(schema: Schema, io: Direction): JsonObject {
  const id = apiSchemas.get(schema)?.id;
  if (id !== undefined) return { $ref: COMPONENTS + id };
  const {
    $schema: _,
    $defs: __,
    ...inline
  } = z.toJSONSchema(schema, {
    io,
    metadata: apiSchemas,
    unrepresentable: 'any',
  });
  const refersToComponents: unknown = JSON.parse(
    JSON.stringify(inline).replaceAll('"#/$defs/', `"${COMPONENTS}`),
  );
  return refersToComponents as JsonObject; // An object that was one before.
}

function generated(io: Direction): Record<string, JsonObject> {
  const { schemas } = z.toJSONSchema(apiSchemas, {
    io,
    uri: (id) => COMPONENTS + id,
    unrepresentable: 'any',
  });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, schema]),
  );
}

/** What is only sent to the server is described as it is sent: with its defaults left out. */
function componentSchemas(routes: readonly RouteDoc[]): Record<string, JsonObject> {
  const bodies = routes.flatMap(({ body }) => (body ? [apiSchemas.get(body)?.id] : []));
  const sent = generated('input');
  const told = generated('output');
  return Object.fromEntries(
    Object.keys(told)
      .sort()
      .map((id) => [id, (bodies.includes(id) ? sent[id] : told[id]) ?? {}]),
  );
}

function operation(route: RouteDoc): JsonObject {
  const { name, tag, summary, description, scope, body } = route;
  return {
    operationId: name,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    security: scope === 'public' ? [] : [{ bearer: [scope] }, { apiKey: [scope] }],
    parameters: [
      ...parameters(route.params, 'path'),
      ...parameters(route.query, 'query'),
      ...parameters(route.headers, 'header'),
    ],
    ...(body === undefined && route.consumes === undefined
      ? {}
      : { requestBody: requestBody(route) }),
    responses: responses(route),
  };
}

const SIGNED = {
  'webhook-id':
    'the same in every attempt: a message that is known already is to be answered and left alone',
  'webhook-timestamp': 'seconds since 1970',
  'webhook-signature': 'of Standard Webhooks; two while a secret is being replaced',
};

function message({ name, summary, schema }: WebhookDoc): JsonObject {
  return {
    operationId: `on.${name}`,
    tags: ['webhooks'],
    summary,
    security: [],
    parameters: Object.entries(SIGNED).map(([header, description]) => ({
      ...{ name: header, in: 'header', required: true, description },
      schema: { type: 'string' },
    })),
    requestBody: {
      required: true,
      content: { 'application/json': { schema: jsonSchema(schema, 'output') } },
    },
    responses: {
      '2XX': { description: 'It is delivered.' },
      '410': { description: 'The receiver is gone: this delivery is given up.' },
      default: { description: 'It is sent again, later.' },
    },
  };
}

function requestBody({ body, consumes = ['application/json'] }: RouteDoc): JsonObject {
  const schema = body === undefined ? {} : { schema: jsonSchema(body, 'input') };
  return {
    required: true,
    content: Object.fromEntries(
      consumes.map((type) => [type, type === 'application/json' ? schema : binaryBody(type)]),
    ),
  };
}

function binaryBody(type: string): JsonObject {
  const file = { type: 'string', format: 'binary' };
  if (type !== 'multipart/form-data') return { schema: file };
  return {
    schema: {
      type: 'object',
      properties: { file },
      required: ['file'],
      additionalProperties: true,
    },
  };
}

function parameters(schema: Schema | undefined, place: 'path' | 'query' | 'header'): JsonObject[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = jsonSchema(schema, 'input');
  const needed = Array.isArray(required) ? required : [];
  return Object.entries(properties as JsonObject).map(([name, described]) => ({
    name,
    in: place,
    required: place === 'path' || needed.includes(name),
    schema: described,
  }));
}

function responses(route: RouteDoc): JsonObject {
  const answers: JsonObject = {};
  for (const [status, response] of Object.entries(route.responses)) {
    answers[status] = {
      description: response.description,
      ...(response.headers === undefined ? {} : { headers: headerDocs(response.headers) }),
      ...(status === '204'
        ? {}
        : { content: { [response.type ?? 'application/json']: content(response) } }),
    };
  }
  for (const [status, codes] of errorsByStatus(route)) {
    answers[status] ??= {
      description: codes.join(', '),
      content: { 'application/problem+json': { schema: { $ref: `${COMPONENTS}Problem` } } },
    };
  }
  return answers;
}

function content({ schema }: ResponseDoc): JsonObject {
  return { schema: schema === undefined ? { type: 'string' } : jsonSchema(schema, 'output') };
}

function headerDocs(headers: Readonly<Record<string, string>>): JsonObject {
  return Object.fromEntries(
    Object.entries(headers).map(([name, description]) => [
      name,
      { description, schema: { type: 'string' } },
    ]),
  );
}

function errorsByStatus(route: RouteDoc): Map<string, ErrorCode[]> {
  const checksInput = route.params ?? route.query ?? route.headers ?? route.body ?? route.consumes;
  const codes: ErrorCode[] = [
    ...(route.errors ?? []),
    ...(checksInput === undefined ? [] : (['INVALID_REQUEST'] as const)),
    ...(route.scope === 'public' ? [] : (['AUTH_REQUIRED', 'FORBIDDEN'] as const)),
    ...COMMON_ERRORS,
  ];
  const byStatus = new Map<string, ErrorCode[]>();
  for (const code of new Set(codes)) {
    const status = String(errorRow(code).httpStatus);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}
