/**
 * Tracing as the parts of the program see it: spans of work, and how they belong together. What stands behind it is chosen
 * where a process is composed (`src/tracing`); without that, nothing is measured and nothing is loaded.
 */

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** A piece of work that is being measured. */
export interface Span {
  set(attributes: SpanAttributes): void;
  /** Points to work of another trace that this was part of. */
  link(other: Span): void;
  /** Once. @param error why it failed */
  end(error?: unknown): void;
}

export interface SpanOptions {
  readonly attributes?: SpanAttributes | undefined;
  /** Milliseconds since 1970. @defaultValue now */
  readonly startedAt?: number | undefined;
  /** @defaultValue the span inside whose `run` this is called */
  readonly parent?: Span | undefined;
  readonly links?: readonly Span[] | undefined;
}

export interface Tracing {
  /** BullMQ's option of this name: it carries a trace from producer to worker with the job. */
  readonly telemetry: object | undefined;
  start(name: string, options?: SpanOptions): Span;
  /** Spans that are begun inside of `work` belong to this one. */
  run<Result>(
    name: string,
    options: SpanOptions,
    work: (span: Span) => Promise<Result>,
  ): Promise<Result>;
  /** Goes on with the trace that a request is part of: `traceparent` and `tracestate` of W3C Trace Context. */
  continued<Result>(
    headers: Readonly<Record<string, unknown>>,
    work: () => Promise<Result>,
  ): Promise<Result>;
  /** Sends what has ended; takes a few seconds at most. Idempotent. */
  close(): Promise<void>;
}

const NO_SPAN: Span = { set: () => undefined, link: () => undefined, end: () => undefined };

export const NO_TRACING: Tracing = {
  telemetry: undefined,
  start: () => NO_SPAN,
  run: (_name, _options, work) => work(NO_SPAN),
  continued: (_headers, work) => work(),
  close: () => Promise.resolve(),
};

/** Where spans are sent to. */
export interface TracingConfig {
  /** Takes OTLP over HTTP. */
  readonly url: string;
  readonly serviceName: string;
}
