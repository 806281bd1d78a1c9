/** Shows how a run goes on: a bar on a terminal, a line from time to time elsewhere. */
import { SingleBar } from 'cli-progress';
import type { RunProgress } from '../../bulk/summary.ts';
import { type Output, printLine } from '../terminal/context.ts';
import { formatDuration, formatSpeed } from '../terminal/text.ts';

const BAR_CHARACTERS = 24;
const BAR_FRAMES_PER_SECOND = 5;
const LINE_EVERY_MS = 30_000;

const CLEAR_LINE = '\r\u001b[K';
const SAVE_CURSOR = '\u001b7';
/** The bar turns wrapping off for itself. */
const WRAP_LINES = '\u001b[?7h';
const CUT_LINES = '\u001b[?7l';

export interface ProgressView {
  update(progress: RunProgress): void;
  /** Lets `write` print something without the bar in its way. */
  aside(write: () => void): void;
  /** Leaves the terminal clean; idempotent. */
  close(): void;
}

/** @param now milliseconds of a monotonic clock */
export function showProgress(
  output: Output,
  now: () => number = () => performance.now(),
): ProgressView {
  return output.isTTY === true ? new ProgressBar(output, now) : new ProgressLines(output, now);
}

/** Shows nothing. */
export const NO_PROGRESS: ProgressView = {
  update: () => undefined,
  aside: (write) => write(),
  close: () => undefined,
};

/** `12/40+ files · 1.5 h audio · 38.0 × real time · ETA 2 min 10 s · 1 failed`; `+` while inputs are still being found. */
export function describeProgress(progress: RunProgress, elapsedSeconds: number): string {
  const { total, complete, settled, failed, audioSeconds } = progress;
  const parts = [
    `${settled}/${total}${complete ? '' : '+'} files`,
    `${(audioSeconds / 3600).toFixed(2)} h audio`,
    formatSpeed(elapsedSeconds > 0 ? audioSeconds / elapsedSeconds : 0),
  ];
  if (complete && settled > 0 && settled < total)
    parts.push(`ETA ${formatDuration((elapsedSeconds * (total - settled)) / settled)}`);
  if (failed > 0) parts.push(`${failed} failed`);
  return parts.join(' · ');
}

class ProgressBar implements ProgressView {
  readonly #output: Output;
  readonly #bar: SingleBar;
  readonly #now: () => number;
  readonly #startedAt: number;

  constructor(output: Output, now: () => number) {
    this.#output = output;
    this.#now = now;
    this.#startedAt = now();
    this.#bar = new SingleBar({
      stream: output,
      format: '{bar} {text}',
      barsize: BAR_CHARACTERS,
      barCompleteChar: '█',
      barIncompleteChar: '░',
      fps: BAR_FRAMES_PER_SECOND,
      clearOnComplete: true,
      emptyOnZero: true,
      hideCursor: true,
      linewrap: false,
      // The command itself stops on Ctrl-C, and closes this view then.
      gracefulExit: false,
    });
    this.#bar.start(0, 0, { text: 'looking for files' });
  }

  update(progress: RunProgress): void {
    this.#bar.setTotal(progress.total);
    const elapsedSeconds = (this.#now() - this.#startedAt) / 1000;
    this.#bar.update(progress.settled, { text: describeProgress(progress, elapsedSeconds) });
  }

  /** The bar's next frame draws it again, below: there, and not above what was written, the bar is to be cleared at its end. */
  aside(write: () => void): void {
    const { isActive } = this.#bar;
    if (isActive) this.#output.write(CLEAR_LINE + WRAP_LINES);
    write();
    if (isActive) this.#output.write(CUT_LINES + SAVE_CURSOR);
  }

  close(): void {
    this.#bar.stop();
  }
}

class ProgressLines implements ProgressView {
  readonly #output: Output;
  readonly #now: () => number;
  readonly #startedAt: number;
  #lastLineAt: number;

  constructor(output: Output, now: () => number) {
    this.#output = output;
    this.#now = now;
    this.#startedAt = now();
    this.#lastLineAt = this.#startedAt;
  }

  update(progress: RunProgress): void {
    const now = this.#now();
    if (now - this.#lastLineAt < LINE_EVERY_MS) return;
    this.#lastLineAt = now;
    printLine(this.#output, describeProgress(progress, (now - this.#startedAt) / 1000));
  }

  aside(write: () => void): void {
    write();
  }

  close(): void {
    this.#lastLineAt = Number.POSITIVE_INFINITY;
  }
}
