/** How a model of this process runs, and which changes of its configuration need another pool. */
import { WavepoolError } from '../../core/errors.ts';
import type { ModelSettings } from '../../core/worker/control.ts';
import type { PoolOptions, RunMode } from '../engine.ts';
import { effectiveBusyTimeoutMs } from '../waiting.ts';

export interface ModelConfiguration {
  /** The converted weights. */
  readonly path: string;
  readonly mode: RunMode;
  /** 1…16, as many as are admitted (`slot-policy.ts`). */
  readonly slots: number;
  /** Compute threads per session. */
  readonly threads: number;
  /** Most items in one native batch. */
  readonly maxBatch: number;
  readonly maxAudioSeconds: number;
  /** Longest wait of a segment for others to share its batch. */
  readonly maxWaitMs: number;
  /** Ceiling of the busy timeout; 0 = unbounded. @defaultValue the runtime's */
  readonly busyTimeoutMs?: number | undefined;
  /** Most requests that wait at once, beyond which they are refused; 0 = unbounded. @defaultValue 0 */
  readonly maxQueued?: number | undefined;
  /** Longest wait for a load; 0 = unbounded. @defaultValue the runtime's */
  readonly loadTimeoutMs?: number | undefined;
}

/** The configuration with some settings changed; a setting that is left out keeps its value. */
export function withSettings(
  base: ModelConfiguration,
  { slots, batch, threads, busyTimeoutMs, maxWaitMs }: ModelSettings,
): ModelConfiguration {
  const secondsPerItem = base.maxAudioSeconds / base.maxBatch;
  return {
    ...base,
    slots: slots ?? base.slots,
    threads: threads ?? base.threads,
    maxBatch: batch ?? base.maxBatch,
    maxAudioSeconds: (batch ?? base.maxBatch) * secondsPerItem,
    maxWaitMs: maxWaitMs ?? base.maxWaitMs,
    busyTimeoutMs: busyTimeoutMs ?? base.busyTimeoutMs,
  };
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

/** Whether a pool made for one serves the other, too. Other changes take effect without a new pool. */
export function samePool(a: ModelConfiguration, b: ModelConfiguration): boolean {
  return sameSessions(a, b) && a.slots === b.slots;
}

function requireCount(name: string, value: number, least: number): void {
  if (Number.isInteger(value) && value >= least) return;
  throw new WavepoolError('INVALID_REQUEST', `${name} must be a whole number from ${least}`);
}

/**
 * Checks what needs neither the weights nor the slot policy.
 * @throws {WavepoolError} INVALID_REQUEST
 */
export function assertConfiguration(configuration: ModelConfiguration): void {
  const { path, mode, threads, maxBatch, maxWaitMs } = configuration;
  if (path === '') throw new WavepoolError('INVALID_REQUEST', 'a model needs the path of a file');
  if (!['offline', 'streaming'].includes(mode)) {
    throw new WavepoolError('INVALID_REQUEST', `a model runs offline or streaming, not ${mode}`);
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
