/**
 * The inputs of a directory as they come in: each once it is whole, and again when it has changed.
 *
 *   change told by the system, or time for a look ──▶ walk ──▶ seen first, or changed ──▶ wait until it is stable
 *                                                         └──▶ stable, nobody writes it ──▶ yield
 *
 * The system loses changes (network file systems, full queues, new folders), so the walks find everything and the changes
 * only bring the next walk forward. What is remembered of each file is small, and forgotten with the file.
 */
import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { filesBeingWritten } from './open-files.ts';
import { type ScanEntry, type ScannedInput, type ScanOptions, scanInputs } from './scan.ts';

/** The only source of time here, so that tests decide when it passes. */
export interface WatchClock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Resolves after so long; rejects when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export interface WatchOptions extends Pick<ScanOptions, 'out' | 'everyFile'> {
  /** Absolute. */
  readonly directory: string;
  /** Size and time of change must have been the same for this long. */
  readonly stableMs: number;
  /** The longest time between two walks. */
  readonly rescanMs: number;
  readonly clock?: WatchClock;
  /** Calls back after changes below the directory, as far as the system tells. */
  readonly watchTree?: (directory: string, onChange: () => void) => Disposable;
}

export const systemWatchClock: WatchClock = {
  now: () => performance.now(),
  sleep: (ms, signal) => delay(ms, undefined, { signal }),
};

/** Changes come in bursts. */
const CALM_MS = 500;
/** Walking takes at most a fifth of the time. */
const PAUSE_PER_WALK = 4;

interface Sight {
  /** Everything that would make it another input. */
  readonly identity: string;
  readonly since: number;
  readonly told: boolean;
}

/** Ends when the signal aborts. */
export async function* watchInputs(
  options: WatchOptions,
  halt: AbortSignal,
): AsyncGenerator<ScanEntry> {
  const watched = new InputWatch(options, halt);
  using _ = (options.watchTree ?? watchTree)(options.directory, () => watched.wake());
  while (!halt.aborted) {
    yield* watched.walk();
    await watched.pause();
  }
}

class InputWatch {
  readonly #options: WatchOptions;
  readonly #clock: WatchClock;
  readonly #halt: AbortSignal;
  #sights = new Map<string, Sight>();
  /** Skipped files and problems that have been told. */
  #remarks = new Set<string>();
  #changed = false;
  #wakeUp: () => void = () => undefined;
  #walkMs = 0;
  /** Ends the pause. */
  #pause = new AbortController();

  constructor(options: WatchOptions, halt: AbortSignal) {
    this.#options = options;
    this.#clock = options.clock ?? systemWatchClock;
    this.#halt = halt;
    halt.addEventListener('abort', () => this.#pause.abort(), { once: true });
  }

  wake(): void {
    this.#changed = true;
    this.#wakeUp();
  }

  /** Yields what is whole, and what is new to say about other files. */
  async *walk(): AsyncGenerator<ScanEntry> {
    const { directory, out, everyFile } = this.#options;
    const startedAt = this.#clock.now();
    this.#changed = false;
    const sights = new Map<string, Sight>();
    const remarks = new Set<string>();
    const whole: ScannedInput[] = [];
    const roots = { files: [], directories: [directory] };
    for await (const entry of scanInputs(roots, { out, everyFile, signal: this.#halt })) {
      if (entry.kind !== 'input') {
        const remark = JSON.stringify(entry);
        remarks.add(remark);
        if (!this.#remarks.has(remark)) yield entry;
        continue;
      }
      const sight = this.#look(entry, startedAt);
      sights.set(entry.path, sight);
      if (!sight.told && startedAt - sight.since >= this.#options.stableMs) whole.push(entry);
    }
    this.#sights = sights;
    this.#remarks = remarks;
    this.#walkMs = this.#clock.now() - startedAt;
    yield* this.#tell(whole);
  }

  /** Returns when it is time for the next walk. */
  async pause(): Promise<void> {
    const now = this.#clock.now();
    const { stableMs, rescanMs } = this.#options;
    const waiting = [...this.#sights.values()].filter(({ told }) => !told);
    const due = Math.min(rescanMs, ...waiting.map(({ since }) => since + stableMs - now));
    const calmMs = Math.max(CALM_MS, PAUSE_PER_WALK * this.#walkMs);
    const pause = new AbortController();
    this.#pause = pause;
    if (this.#halt.aborted) return;
    try {
      await this.#clock.sleep(calmMs, pause.signal);
      if (this.#changed) return;
      this.#wakeUp = () => pause.abort();
      await this.#clock.sleep(Math.max(0, due - calmMs), pause.signal);
    } catch {
      // Woken before its time.
    } finally {
      this.#wakeUp = () => undefined;
    }
  }

  #look(entry: ScannedInput, now: number): Sight {
    const { bytes, mtimeMs, outputFolder, outputName } = entry;
    const identity = JSON.stringify([bytes, mtimeMs, outputFolder, outputName]);
    const known = this.#sights.get(entry.path);
    return known?.identity === identity ? known : { identity, since: now, told: false };
  }

  async *#tell(whole: readonly ScannedInput[]): AsyncGenerator<ScanEntry> {
    if (whole.length === 0) return;
    const written = await filesBeingWritten(whole.map((entry) => entry.path));
    for (const entry of whole) {
      const sight = this.#sights.get(entry.path);
      // The reader may have taken its time: what has changed since is for the next walk.
      if (sight === undefined || written.has(entry.path) || !(await isAsSeen(entry))) {
        if (sight !== undefined)
          this.#sights.set(entry.path, { ...sight, since: this.#clock.now() });
        continue;
      }
      this.#sights.set(entry.path, { ...sight, told: true });
      yield entry;
    }
  }
}

async function isAsSeen({ path, bytes, mtimeMs }: ScannedInput): Promise<boolean> {
  const now = await stat(path).catch(() => undefined);
  return now?.size === bytes && now.mtimeMs === mtimeMs;
}

/** As the system tells; silent where it does not, or no longer. */
function watchTree(directory: string, onChange: () => void): Disposable {
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(directory, { recursive: true, persistent: false }, onChange);
    watcher.on('error', () => watcher?.close());
  } catch {
    // No more watches on this system: the walks find everything.
  }
  return { [Symbol.dispose]: () => watcher?.close() };
}
