/** Opens the tracing of a process. OpenTelemetry is loaded only when a collector is configured. */
import { NO_TRACING, type Tracing, type TracingConfig } from '../core/tracing.ts';

/** @param role the kind of the process, such as `server` or `worker` */
export async function openTracing(
  config: TracingConfig | undefined,
  role: string,
): Promise<Tracing & AsyncDisposable> {
  const tracing = config === undefined ? NO_TRACING : await load(config, role);
  return { ...tracing, [Symbol.asyncDispose]: () => tracing.close() };
}

async function load(config: TracingConfig, role: string): Promise<Tracing> {
  const { openTelemetry } = await import('./open-telemetry.ts');
  return openTelemetry(config, role);
}
