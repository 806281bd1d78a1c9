import type { ModelConfiguration } from '../../runtime/models/model-configuration.ts';

export interface LiveDetectorOptions {
  /** The detector's weights, the same file as for batches. */
  readonly path: string;
  /** Streams at once, 1…16. @defaultValue 4 */
  readonly streams?: number | undefined;
  /** Bound on the wait of a stream for a slot; 0 = unbounded. @defaultValue the runtime's */
  readonly busyTimeoutMs?: number | undefined;
}

/**
 * A detector for live streams, as an entry of its own beside the one for batches: a session either runs batches or holds
 * one stream. Between two writes a stream needs no time, so the number of streams is a matter of memory: some 350 KB each.
 */
export function liveDetectorConfiguration({
  path,
  streams = 4,
  busyTimeoutMs,
}: LiveDetectorOptions): ModelConfiguration {
  return {
    path,
    mode: 'streaming',
    slots: streams,
    threads: 1,
    maxBatch: 1,
    maxAudioSeconds: 1,
    maxWaitMs: 0,
    busyTimeoutMs,
  };
}
