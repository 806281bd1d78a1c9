/** The first Ctrl-C stops a command gently, the second at once. */
import type { CliContext } from './context.ts';
import { printLine } from './context.ts';
import { EXIT } from './exit-codes.ts';

export interface InterruptWatch extends Disposable {
  /** Aborted by the first interrupt. */
  readonly signal: AbortSignal;
}

/** @param advice printed at the first interrupt */
export function watchInterrupts(context: CliContext, advice: string): InterruptWatch {
  const controller = new AbortController();
  const stop = context.onInterrupt(() => {
    if (controller.signal.aborted) {
      context.exitNow(EXIT.interrupted);
      return;
    }
    printLine(context.stderr, advice);
    controller.abort();
  });
  return { signal: controller.signal, [Symbol.dispose]: stop };
}
