/** The first Ctrl-C stops a command gently, the second hurries it, the third ends it at once. */
import { WavepoolError } from '../../core/errors.ts';
import { type CliContext, EXIT } from './context.ts';

export interface InterruptWatch extends Disposable {
  /** Aborted by the first interrupt. */
  readonly signal: AbortSignal;
}

export interface InterruptPlan {
  /** Says what happens now. */
  readonly onFirst: () => void;
  /** Frees what would outlive the process; it ends afterwards. */
  readonly onSecond?: () => Promise<void>;
}

export function watchInterrupts(context: CliContext, plan: InterruptPlan): InterruptWatch {
  const controller = new AbortController();
  let count = 0;
  const stop = context.onInterrupt(() => {
    count += 1;
    if (count === 1) {
      plan.onFirst();
      controller.abort();
    } else if (count === 2 && plan.onSecond !== undefined) {
      const end = (): void => context.exitNow(EXIT.interrupted);
      plan.onSecond().then(end, end);
    } else {
      context.exitNow(EXIT.interrupted);
    }
  });
  return { signal: controller.signal, [Symbol.dispose]: stop };
}

/** Whether the error only says that the command was interrupted. */
export function isInterruption(error: unknown, { signal }: InterruptWatch): boolean {
  if (!signal.aborted || !(error instanceof Error)) return false;
  return (
    error.name === 'AbortError' || (error instanceof WavepoolError && error.code === 'CANCELLED')
  );
}
