import type { WavepoolError } from '../../core/errors.ts';
import { cancellation } from '../cancellation.ts';
import type { Clock, Timer } from '../clock.ts';

export interface WaitBounds {
  readonly clock: Clock;
  /** 0 = unbounded. */
  readonly timeoutMs: number;
  readonly expired: () => WavepoolError;
  /** Any of them ends the wait at once. */
  readonly signals: readonly (AbortSignal | undefined)[];
}

/** What `work` comes to, unless its time or a signal ends the wait before. The work itself goes on. */
export function waitFor<T>(work: Promise<T>, bounds: WaitBounds): Promise<T> {
  const signals = bounds.signals.filter((signal) => signal !== undefined);
  return new Promise((resolve, reject) => {
    let timer: Timer | undefined;
    const stop = (): void => {
      timer?.cancel();
      for (const signal of signals) signal.removeEventListener('abort', onAbort);
    };
    const onAbort = (): void => {
      const aborted = signals.find((signal) => signal.aborted);
      if (!aborted) return;
      stop();
      reject(cancellation(aborted));
    };
    if (bounds.timeoutMs > 0) {
      timer = bounds.clock.setTimer(bounds.timeoutMs, () => {
        stop();
        reject(bounds.expired());
      });
    }
    for (const signal of signals) signal.addEventListener('abort', onAbort);
    onAbort();
    work.then(resolve, reject).finally(stop);
  });
}
