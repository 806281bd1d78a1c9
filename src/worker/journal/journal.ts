/**
 * The finished segments of one long job, kept where the next attempt finds them: after a crash, a restart or a lost
 * lock it decodes and searches the input again, which is cheap and gives the same segments, and recognizes only those
 * that are not here.
 *
 * A journal is never stale: its name is a hash of everything that a segment's result depends on. When the disk takes
 * no more, the journal ends and the job goes on.
 */
import { createHash } from 'node:crypto';
import {
  formatJournalLine,
  type JournalResult,
  parseJournalLine,
} from '../../core/job/journal-line.ts';
import { SAMPLE_RATE, type TaskOptions, type TaskResult } from '../../runtime/engine.ts';
import type { Journal, JournalStore } from '../../storage/journals.ts';

/** What a recognizer is given of an input. */
export interface JournalSegment {
  readonly startSample: number;
  readonly endSample: number;
  /** Set when channels are recognized one by one. */
  readonly channel?: number | undefined;
}

/** Results of segments: looked up before a segment is recognized, and added afterwards. */
export interface SegmentJournal {
  find(segment: JournalSegment, options: TaskOptions): TaskResult | undefined;
  /** Returns at once and never fails. */
  add(segment: JournalSegment, options: TaskOptions, result: TaskResult): void;
}

export interface JobJournalOptions {
  readonly store: JournalStore;
  readonly jobId: string;
  /** Everything that a segment's result depends on; asked at most once, and not at all for a short job. */
  readonly identity: () => Promise<unknown>;
  /** Called once, when nothing more can be written. */
  readonly onProblem?: ((error: unknown) => void) | undefined;
}

/** At most this much recognized audio has to be recognized again after the process has died. */
const WRITE_EVERY_SECONDS = 30;
/** At most this much recognized audio has to be recognized again after a power cut. */
const SYNC_EVERY_SECONDS = 300;

export class JobJournal implements SegmentJournal {
  readonly #options: JobJournalOptions;
  readonly #known = new Map<string, TaskResult>();
  #journal: Promise<Journal> | undefined;
  #pending: string[] = [];
  #pendingSeconds = 0;
  #unsyncedSeconds = 0;
  #writing: Promise<void> = Promise.resolve();
  #written = false;
  #givenUp = false;

  private constructor(options: JobJournalOptions) {
    this.#options = options;
  }

  static async open(options: JobJournalOptions): Promise<JobJournal> {
    const journal = new JobJournal(options);
    try {
      if (await options.store.holds(options.jobId)) journal.#learn((await journal.#open()).lines);
    } catch (error) {
      journal.#giveUp(error);
    }
    return journal;
  }

  /** Number of results that earlier attempts left. */
  get size(): number {
    return this.#known.size;
  }

  find(segment: JournalSegment, options: TaskOptions): TaskResult | undefined {
    return this.#known.get(keyOf(segment, options));
  }

  add(segment: JournalSegment, options: TaskOptions, result: TaskResult): void {
    if (this.#givenUp) return;
    this.#pending.push(formatJournalLine([keyOf(segment, options), toStored(result)]));
    this.#pendingSeconds += (segment.endSample - segment.startSample) / SAMPLE_RATE;
    if (this.#pendingSeconds >= WRITE_EVERY_SECONDS) this.#write();
  }

  /** Writes what is left, if there is a journal at all, and lets go of the file. */
  async close(): Promise<void> {
    const begun = this.#written || this.#journal !== undefined;
    if (begun && this.#pending.length > 0) this.#write();
    await this.#writing;
    await this.#journal?.then((journal) => journal.close()).catch(() => undefined);
  }

  #write(): void {
    this.#written = true;
    const lines = this.#pending;
    this.#pending = [];
    this.#unsyncedSeconds += this.#pendingSeconds;
    this.#pendingSeconds = 0;
    const sync = this.#unsyncedSeconds >= SYNC_EVERY_SECONDS;
    if (sync) this.#unsyncedSeconds = 0;
    this.#writing = this.#writing
      .then(async () => {
        if (!this.#givenUp) await (await this.#open()).append(lines, sync);
      })
      .catch((error: unknown) => this.#giveUp(error));
  }

  #open(): Promise<Journal> {
    const { store, jobId, identity } = this.#options;
    this.#journal ??= identity().then((facts) => store.open(jobId, fingerprintOf(facts)));
    return this.#journal;
  }

  #learn(lines: readonly string[]): void {
    for (const line of lines) {
      const [key, stored] = parseJournalLine(line) ?? [];
      if (key !== undefined && stored !== undefined) this.#known.set(key, fromStored(stored));
    }
  }

  #giveUp(error: unknown): void {
    if (this.#givenUp) return;
    this.#givenUp = true;
    this.#pending = [];
    this.#options.onProblem?.(error);
  }
}

function fingerprintOf(identity: unknown): string {
  return createHash('sha256').update(JSON.stringify(identity)).digest('hex');
}

function keyOf({ startSample, endSample, channel }: JournalSegment, options: TaskOptions): string {
  const named = Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([channel ?? null, startSample, endSample, named]);
}

/** A recognizer's result in the form in which journals and parts of split jobs carry it. */
export function toStored({ tokens, probabilities, pieces, ...result }: TaskResult): JournalResult {
  return {
    ...result,
    pieces: pieces.map((piece) => ({ ...piece, words: [...piece.words] })),
    tokens: [...tokens],
    probabilities: [...probabilities],
  };
}

export function fromStored({ tokens, probabilities, ...result }: JournalResult): TaskResult {
  return {
    ...result,
    tokens: Int32Array.from(tokens),
    probabilities: Float32Array.from(probabilities),
  };
}
