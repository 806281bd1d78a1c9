/** Counts a run's events: the numbers of its progress bar, and of the summary at its end. */
import type { ErrorCode } from '../core/errors.ts';

export interface InputFailure {
  readonly path: string;
  readonly code: ErrorCode;
  readonly message: string;
}

/** What a run tells while it goes on. Paths are absolute. */
export type RunEvent =
  | { readonly type: 'found'; readonly path: string }
  /** How many inputs there are, told once they have been counted ahead. */
  | { readonly type: 'counted'; readonly inputs: number }
  /** Every input has been found. */
  | { readonly type: 'scanned' }
  /** Not audio, by extension or content. */
  | { readonly type: 'skipped'; readonly path: string }
  /** A folder or file that could not be looked at. */
  | ({ readonly type: 'problem' } & InputFailure)
  /** Done by an earlier run. */
  | { readonly type: 'finished'; readonly path: string }
  | { readonly type: 'submitted'; readonly path: string }
  | { readonly type: 'progress'; readonly path: string; readonly processedSeconds: number }
  | {
      readonly type: 'done';
      readonly path: string;
      readonly audioSeconds: number;
      readonly noSpeech: boolean;
      /** Only written again from the stored result. */
      readonly rendered: boolean;
    }
  /** `known`: an earlier run found this, and nothing was tried again. */
  | ({ readonly type: 'failed'; readonly known: boolean } & InputFailure);

export interface RunSummary {
  readonly found: number;
  /** Worked on or rendered by this run. */
  readonly done: number;
  /** Done before this run. */
  readonly finished: number;
  readonly failed: readonly InputFailure[];
  readonly problems: readonly InputFailure[];
  /** Files that are no audio. */
  readonly skipped: number;
  readonly noSpeech: number;
  /** Worked on by this run. */
  readonly audioSeconds: number;
  readonly wallSeconds: number;
  /** Audio time over wall time; 0 when there was no work. */
  readonly timesRealTime: number;
  /** The run was stopped before its end; the same command goes on. */
  readonly interrupted: boolean;
}

export interface RunProgress {
  /** Inputs that are known of. */
  readonly total: number;
  /** No more inputs will be found. */
  readonly complete: boolean;
  /** Inputs that need nothing more: done, finished before, or failed. */
  readonly settled: number;
  readonly failed: number;
  /** Worked on so far, the running inputs included. */
  readonly audioSeconds: number;
}

export class RunTally {
  readonly #startedAt: number;
  readonly #now: () => number;
  readonly #failed: InputFailure[] = [];
  readonly #problems: InputFailure[] = [];
  readonly #running = new Map<string, number>();
  #found = 0;
  #counted: number | undefined;
  #scanned = false;
  #done = 0;
  #finished = 0;
  #skipped = 0;
  #noSpeech = 0;
  #audioSeconds = 0;

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#startedAt = now();
  }

  add(event: RunEvent): void {
    switch (event.type) {
      case 'found':
        this.#found += 1;
        return;
      case 'counted':
        this.#counted = event.inputs;
        return;
      case 'scanned':
        this.#scanned = true;
        return;
      case 'skipped':
        this.#skipped += 1;
        return;
      case 'finished':
        this.#finished += 1;
        return;
      case 'submitted':
        return;
      case 'problem':
        this.#problems.push(failureOf(event));
        return;
      case 'progress':
        this.#running.set(event.path, event.processedSeconds);
        return;
      case 'done':
        this.#running.delete(event.path);
        this.#done += 1;
        if (event.noSpeech) this.#noSpeech += 1;
        if (!event.rendered) this.#audioSeconds += event.audioSeconds;
        return;
      case 'failed':
        this.#running.delete(event.path);
        this.#failed.push(failureOf(event));
        return;
      default: {
        const unknown: never = event;
        throw new TypeError(`no such event: ${JSON.stringify(unknown)}`);
      }
    }
  }

  progress(): RunProgress {
    const running = [...this.#running.values()].reduce((sum, seconds) => sum + seconds, 0);
    return {
      total: Math.max(this.#found, this.#counted ?? 0),
      complete: this.#scanned || this.#counted !== undefined,
      settled: this.#done + this.#finished + this.#failed.length,
      failed: this.#failed.length,
      audioSeconds: this.#audioSeconds + running,
    };
  }

  summary(interrupted: boolean): RunSummary {
    const wallSeconds = (this.#now() - this.#startedAt) / 1000;
    return {
      found: this.#found,
      done: this.#done,
      finished: this.#finished,
      failed: this.#failed.toSorted(byPath),
      problems: this.#problems,
      skipped: this.#skipped,
      noSpeech: this.#noSpeech,
      audioSeconds: rounded(this.#audioSeconds),
      wallSeconds: rounded(wallSeconds),
      timesRealTime: wallSeconds > 0 ? rounded(this.#audioSeconds / wallSeconds) : 0,
      interrupted,
    };
  }
}

/** To thousandths: no summary is more exact than that. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}

function byPath(a: InputFailure, b: InputFailure): number {
  if (a.path === b.path) return 0;
  return a.path < b.path ? -1 : 1;
}

function failureOf({ path, code, message }: InputFailure): InputFailure {
  return { path, code, message };
}
