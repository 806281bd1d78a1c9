/** How a model of this process runs, and which changes of that need another pool. */
import { WavepoolError } from '../../core/errors.ts';
import { effectiveBusyTimeoutMs } from '../busy.ts';
import type { PoolOptions, RunMode } from '../engine.ts';
import { MAX_SLOTS } from '../slots/model-slots.ts';

export interface ModelConfiguration {
  /** The converted weights. */
  readonly path: string;
  readonly mode: RunMode;
  /** Admitted count (`admittedSlots`), 1…16. */
  readonly slots: number;
  /** Compute threads per session. */
  readonly threads: number;
  /** Most items in one native batch. */
  readonly maxBatch: number;
  readonly maxAudioSeconds: number;
  /** Longest wait of a segment for company. */
  readonly maxWaitMs: number;
  /** Ceiling of the busy timeout; 0 = unbounded. @defaultValue the runtime's */
  readonly busyTimeoutMs?: number | undefined;
  /** Most requests that wait at once, beyond which they are refused; 0 = unbounded. @defaultValue 0 */
  readonly maxQueued?: number | undefined;
  /** Longest wait for a load; 0 = unbounded. @defaultValue the runtime's */
  readonly loadTimeoutMs?: number | undefined;
}

/** What a pool is made with: a change of any of these replaces it. */
export function poolOptions(configuration: ModelConfiguration): PoolOptions {
  const { slots, mode, threads, maxBatch } = configuration;
  return { slots, mode, threads, maxBatch };
}

/** Whether sessions of both advertise the same capacity: same weights, same options. */
export function sameSessions(a: ModelConfiguration, b: ModelConfiguration): boolean {
  const keys = ['path', 'mode', 'threads', 'maxBatch'] as const;
  return keys.every((key) => a[key] === b[key]);
}

/** Whether a pool made for one serves the other; what else differs takes effect without one. */
export function samePool(a: ModelConfiguration, b: ModelConfiguration): boolean {
  return sameSessions(a, b) && a.slots === b.slots;
}

function requireCount(name: string, value: number, least: number): void {
  if (Number.isInteger(value) && value >= least) return;
  throw new WavepoolError('INVALID_REQUEST', `${name} must be a whole number from ${least}`);
}

/**
 * Checks what can be checked without the weights.
 * @throws {WavepoolError} SLOTS_UNSUPPORTED, INVALID_REQUEST
 */
export function assertConfiguration(configuration: ModelConfiguration): void {
  const { path, mode, slots, threads, maxBatch, maxWaitMs } = configuration;
  if (path === '') throw new WavepoolError('INVALID_REQUEST', 'a model needs the path of a file');
  if (!['offline', 'streaming'].includes(mode)) {
    throw new WavepoolError('INVALID_REQUEST', `a model runs offline or streaming, not ${mode}`);
  }
  if (!Number.isInteger(slots) || slots < 1 || slots > MAX_SLOTS) {
    throw new WavepoolError('SLOTS_UNSUPPORTED', `${slots} is not within 1…${MAX_SLOTS}`);
  }
  requireCount('threads', threads, 1);
  requireCount('maxBatch', maxBatch, 1);
  requireCount('maxQueued', configuration.maxQueued ?? 0, 0);
  effectiveBusyTimeoutMs(configuration.busyTimeoutMs ?? 0);
  const { maxAudioSeconds, loadTimeoutMs = 0 } = configuration;
  if (!(maxAudioSeconds > 0 && maxWaitMs >= 0 && loadTimeoutMs >= 0)) {
    throw new WavepoolError('INVALID_REQUEST', 'times must not be negative');
  }
}
