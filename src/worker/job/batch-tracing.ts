/**
 * A native batch serves segments of many jobs, and a span has one parent: it is part of the trace of its first segment, and
 * it and every segment point to each other.
 */
import type { Tracing } from '../../core/tracing.ts';
import type { BatchWatch } from '../../runtime/batches/batcher.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';

/** Nothing where nothing is traced. */
export function traceBatches(tracing: Tracing): BatchWatch | undefined {
  if (tracing.telemetry === undefined) return undefined;
  return ({ model, slot, segments }) => {
    const members = segments.flatMap(({ span }) => span ?? []);
    const samples = segments.reduce(
      (sum, { task: { startSample, endSample } }) => sum + endSample - startSample,
      0,
    );
    const batch = tracing.start('native batch', {
      parent: members[0],
      links: members,
      attributes: {
        'wavepool.model': model,
        'wavepool.slot': slot,
        'wavepool.batch.size': segments.length,
        'wavepool.batch.jobs': new Set(segments.map(({ jobId }) => jobId)).size,
        'wavepool.audio_seconds': samples / SAMPLE_RATE,
      },
    });
    for (const member of members) member.link(batch);
    return (error) => batch.end(error);
  };
}
