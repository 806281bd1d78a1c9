/** Records one start: its phases as they begin, its memory over time, its outcomes and its checks. */
import process from 'node:process';
import type { MemorySample, StartPhase } from '../../core/evidence/evidence.ts';
import type { ItemOutcome, StartCheck, StartReport } from '../../core/evidence/validation-ipc.ts';

/** The time between two looks at resident memory. Peaks that are shorter can be missed. */
const SAMPLE_INTERVAL_MS = 100;
const NOTEWORTHY_BYTES = 2 ** 20;
const LONGEST_GAP_MS = 1_000;

function residentBytes(): number {
  return process.memoryUsage.rss();
}

export interface RecorderOptions {
  /** Told when a phase or a wave begins. */
  readonly onPhase: (phase: StartPhase, wave: number) => void;
  /** Frees the garbage of JavaScript, so that only native code can make memory grow. */
  readonly collectGarbage: () => void;
}

export class StartRecorder implements Disposable {
  readonly #options: RecorderOptions;
  readonly #startedAt = new Date();
  readonly #startedMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  readonly #memory: MemorySample[] = [];
  readonly #outcomes: ItemOutcome[] = [];
  readonly #checks: StartCheck[] = [];
  #phase: StartPhase = 'idle';
  #waves = 0;
  #activeLeases = 0;
  #audioSeconds = 0;
  #wallSeconds = 0;
  #timedWaves = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#sample();
    this.#timer = setInterval(() => this.#sampleByTime(), SAMPLE_INTERVAL_MS).unref();
  }

  get phase(): StartPhase {
    return this.#phase;
  }

  enter(phase: StartPhase, wave = 0): void {
    this.#phase = phase;
    this.#options.onPhase(phase, wave);
    this.#sample();
  }

  waveEnded(wave: number): void {
    this.#waves += 1;
    this.#options.collectGarbage();
    this.#sample(this.#phase === 'warm' ? wave : undefined);
  }

  /** Adds the time that the work of one warm wave took. */
  timed(audioSeconds: number, wallSeconds: number): void {
    this.#audioSeconds += audioSeconds;
    this.#wallSeconds += wallSeconds;
    this.#timedWaves += 1;
  }

  leases(active: number): void {
    this.#activeLeases = Math.max(this.#activeLeases, active);
  }

  get mostLeases(): number {
    return this.#activeLeases;
  }

  outcomes(outcomes: readonly ItemOutcome[]): void {
    this.#outcomes.push(...outcomes);
  }

  check(entry: StartCheck['entry'], name: string, ok: boolean, observed: string): void {
    this.#checks.push({ entry, name, ok, observed });
  }

  report(): StartReport {
    this.#sample();
    return {
      startedAt: this.#startedAt.toISOString(),
      waves: this.#waves,
      outcomes: this.#outcomes,
      checks: this.#checks,
      memory: this.#memory,
      activeLeases: this.#activeLeases,
      throughput: {
        audioSeconds: this.#audioSeconds,
        wallSeconds: Math.max(this.#wallSeconds, 1e-6),
        samples: Math.max(1, this.#timedWaves),
      },
    };
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Keeps a sample when the size has changed by a mebibyte since the last one, or when that one is a second old. */
  #sampleByTime(): void {
    const last = this.#memory.at(-1);
    const changed = Math.abs(residentBytes() - (last?.residentBytes ?? 0)) >= NOTEWORTHY_BYTES;
    const elapsedMs = performance.now() - this.#startedMs - (last?.atMs ?? 0);
    if (changed || elapsedMs >= LONGEST_GAP_MS) this.#sample();
  }

  #sample(wave?: number): void {
    this.#memory.push({
      atMs: Math.round(performance.now() - this.#startedMs),
      phase: this.#phase,
      residentBytes: residentBytes(),
      ...(wave === undefined ? {} : { wave }),
    });
  }
}
