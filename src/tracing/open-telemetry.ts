/** Tracing with OpenTelemetry. Spans are sent to a collector over HTTP, many at a time. */
import { hostname } from 'node:os';
import {
  type Context,
  context,
  type Link,
  type Span as OtelSpan,
  propagation,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  BatchSpanProcessor,
  NodeTracerProvider,
  type TracerConfig,
} from '@opentelemetry/sdk-trace-node';
import { BullMQOtel } from 'bullmq-otel';
import { toWavepoolError } from '../core/errors.ts';
import { packageVersion } from '../core/package-version.ts';
import type { Span, SpanAttributes, SpanOptions, Tracing, TracingConfig } from '../core/tracing.ts';

const NAME = 'wavepool';
/** A process that ends waits no longer than this for a collector that is away. */
const EXPORT_TIMEOUT_MS = 3_000;

type Resource = NonNullable<TracerConfig['resource']>;

export function openTelemetry({ url, serviceName }: TracingConfig, role: string): Tracing {
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS });
  const provider = new NodeTracerProvider({
    resource: resourceOf({
      'service.name': serviceName,
      'service.version': packageVersion(),
      'service.instance.id': `${hostname()}:${process.pid}`,
      'process.pid': process.pid,
      'wavepool.role': role,
    }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  // This registers the provider with the API, from which `bullmq-otel` gets it.
  provider.register();
  const version = packageVersion();
  const tracer = trace.getTracer(NAME, version);
  const start = (name: string, options: SpanOptions = {}): TracedSpan => {
    const { attributes = {}, startedAt, parent, links = [] } = options;
    const within = parent instanceof TracedSpan ? parent.context : context.active();
    const startTime = startedAt === undefined ? {} : { startTime: startedAt };
    const settings = { attributes, links: links.flatMap(linkTo), ...startTime };
    return new TracedSpan(tracer.startSpan(name, settings, within), within);
  };
  let closing: Promise<void> | undefined;
  return {
    telemetry: new BullMQOtel({ tracerName: NAME, version }),
    start,
    run: async (name, options, work) => {
      const span = start(name, options);
      try {
        const result = await context.with(span.context, () => work(span));
        span.end();
        return result;
      } catch (error) {
        span.end(error);
        throw error;
      }
    },
    continued: (headers, work) =>
      context.with(propagation.extract(context.active(), headers), work),
    close: () => {
      // Spans that cannot be sent are lost. That is no reason for the end of the process to fail.
      closing ??= provider.shutdown().catch(() => undefined);
      return closing;
    },
  };
}

class TracedSpan implements Span {
  /** The context in which the children of this span are started. */
  readonly context: Context;
  readonly #span: OtelSpan;

  constructor(span: OtelSpan, within: Context) {
    this.#span = span;
    this.context = trace.setSpan(within, span);
  }

  get asLink(): Link {
    return { context: this.#span.spanContext() };
  }

  set(attributes: SpanAttributes): void {
    this.#span.setAttributes(attributes);
  }

  link(other: Span): void {
    this.#span.addLinks(linkTo(other));
  }

  end(error?: unknown): void {
    if (error !== undefined) {
      const { code, message } = toWavepoolError(error);
      this.#span.setAttribute('error.type', code);
      this.#span.setStatus({ code: SpanStatusCode.ERROR, message });
    }
    this.#span.end();
  }
}

function linkTo(span: Span): Link[] {
  return span instanceof TracedSpan ? [span.asLink] : [];
}

/** A resource with exactly these attributes. Nothing is detected or merged. */
function resourceOf(attributes: Resource['attributes']): Resource {
  const resource: Resource = {
    attributes,
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  };
  return resource;
}
