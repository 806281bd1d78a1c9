import { isAfter } from '../../core/http/event-position.ts';
import type { JobEnd } from '../jobs/job-view.ts';
import type { JobEndsSnapshot } from './job-ends.ts';

/** Jobs whose state is read at once. */
const CHUNK = 500;

export interface EndTrackerOptions<End = JobEnd> {
  /** Reads how jobs have ended, with the place in the event stream at which that is true. */
  readonly read: (ids: readonly string[]) => Promise<JobEndsSnapshot<End>>;
  /** Called for every end: once for a watched job, as often as it is heard for the others. */
  readonly tell: (id: string, end: End) => void;
}

interface Waiter<End> {
  readonly settle: (end: End) => void;
  readonly fail: (error: unknown) => void;
  /** The state was read since this wait began: an end heard from now on is the one it waits for. */
  informed: boolean;
}

interface HeardEnd<End> {
  readonly eventId: string;
  readonly end: End;
}

/** The state of a job was read at this place of the stream: ends up to there are old news. */
interface Mark {
  readonly upTo: string;
  /** Whether listeners were promised one end, and so are not told the old ones. */
  readonly watched: boolean;
}

/**
 * Makes one story out of two sources: the event stream, which is prompt but starts somewhere, lags and may lose its tail,
 * and the state of the jobs, which is complete but must be asked for. A job that is retried ends again; the earlier end,
 * still on its way in the stream, is then not taken for the new one.
 */
export class EndTracker<End = JobEnd> {
  readonly #options: EndTrackerOptions<End>;
  readonly #watched = new Set<string>();
  readonly #waiters = new Map<string, Set<Waiter<End>>>();
  readonly #marks = new Map<string, Mark>();
  /** Jobs about to be read. */
  readonly #wanted = new Set<string>();
  /** Ends heard for jobs that are being read: told once it is known what is old. */
  readonly #heldBack = new Map<string, HeardEnd<End>[]>();
  #reading: Promise<void> | undefined;
  #position = '0-0';

  constructor(options: EndTrackerOptions<End>) {
    this.#options = options;
  }

  /** An end from the event stream, in its order. */
  hear(id: string, eventId: string, end: End): void {
    this.#position = eventId;
    const heldBack = this.#heldBack.get(id);
    if (heldBack === undefined) this.#accept(id, { eventId, end });
    else heldBack.push({ eventId, end });
  }

  /** Promises exactly one more `tell` for each of these jobs, be its end in the past. */
  async watch(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#watched.add(id);
    await this.#look(ids);
  }

  unwatch(ids: readonly string[]): void {
    for (const id of ids) this.#watched.delete(id);
  }

  /** How the job ends or ended. Rejects with the signal's reason. */
  waitForEnd(id: string, signal?: AbortSignal): Promise<End> {
    return new Promise((resolve, reject) => {
      const waiters = this.#waiters.get(id) ?? new Set();
      const leave = (): void => {
        signal?.removeEventListener('abort', abort);
        waiters.delete(waiter);
        if (waiters.size === 0 && this.#waiters.get(id) === waiters) this.#waiters.delete(id);
      };
      const waiter: Waiter<End> = {
        settle: (end) => {
          leave();
          resolve(end);
        },
        fail: (error) => {
          leave();
          reject(error instanceof Error ? error : new Error(String(error)));
        },
        informed: false,
      };
      const abort = (): void => waiter.fail(signal?.reason);
      waiters.add(waiter);
      this.#waiters.set(id, waiters);
      signal?.addEventListener('abort', abort);
      if (signal?.aborted) abort();
      else this.#look([id]).catch(waiter.fail);
    });
  }

  /** Reads the state of every job that somebody waits for or watches. */
  async lookAgain(): Promise<void> {
    if (this.#reading === undefined) await this.#look([...this.#watched, ...this.#waiters.keys()]);
  }

  /** Ends every wait. */
  fail(error: unknown): void {
    for (const waiters of [...this.#waiters.values()]) {
      for (const waiter of [...waiters]) waiter.fail(error);
    }
  }

  async #look(ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      this.#wanted.add(id);
      if (!this.#heldBack.has(id)) this.#heldBack.set(id, []);
    }
    this.#reading ??= this.#readWanted().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  /** One reading at a time: what is asked for meanwhile is read together afterwards. */
  async #readWanted(): Promise<void> {
    this.#dropOldMarks();
    try {
      while (this.#wanted.size > 0) {
        const chunk = [...this.#wanted].slice(0, CHUNK);
        for (const id of chunk) this.#wanted.delete(id);
        const snapshot = await this.#options.read(chunk);
        // A job that was asked for again since then is read again, and only that counts.
        for (const id of chunk) if (!this.#wanted.has(id)) this.#apply(id, snapshot);
      }
    } catch (error) {
      this.#wanted.clear();
      for (const id of [...this.#heldBack.keys()]) this.#releaseHeldBack(id);
      throw error;
    }
  }

  #apply(id: string, { ends, lastEventId }: JobEndsSnapshot<End>): void {
    const end = ends.get(id);
    const watched = end === undefined ? this.#watched.has(id) : this.#watched.delete(id);
    this.#marks.set(id, { upTo: lastEventId, watched });
    for (const waiter of this.#waiters.get(id) ?? []) waiter.informed = true;
    if (end !== undefined) {
      if (watched) this.#options.tell(id, end);
      this.#settle(id, end);
    }
    this.#releaseHeldBack(id);
  }

  #releaseHeldBack(id: string): void {
    const heldBack = this.#heldBack.get(id) ?? [];
    this.#heldBack.delete(id);
    for (const heard of heldBack) this.#accept(id, heard);
  }

  #accept(id: string, { eventId, end }: HeardEnd<End>): void {
    const mark = this.#marks.get(id);
    const isOld = mark !== undefined && !isAfter(eventId, mark.upTo);
    if (isOld && mark.watched) return;
    if (!isOld) this.#watched.delete(id);
    this.#options.tell(id, end);
    if (!isOld) this.#settle(id, end);
  }

  #settle(id: string, end: End): void {
    for (const waiter of [...(this.#waiters.get(id) ?? [])]) {
      if (waiter.informed) waiter.settle(end);
    }
  }

  #dropOldMarks(): void {
    for (const [id, { upTo }] of this.#marks) {
      if (!isAfter(upTo, this.#position) && !this.#heldBack.get(id)?.length) this.#marks.delete(id);
    }
  }
}
