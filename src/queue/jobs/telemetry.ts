/** Tracing as an option of BullMQ's objects. */
import type { Telemetry } from 'bullmq';
import type { Tracing } from '../../core/tracing.ts';

export function telemetryOf({ telemetry }: Pick<Tracing, 'telemetry'>): { telemetry?: Telemetry } {
  // Made by `bullmq-otel` for this very option.
  return telemetry === undefined ? {} : { telemetry: telemetry as Telemetry };
}
