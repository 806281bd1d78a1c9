/**
 * What the supervisor is told of the jobs that this worker holds. It needs to know before native code works for a job, for
 * that is what may take the process down; all else may follow with the next message. What has passed by then is never said:
 * a job that came and ended between two messages costs none. Should the worker die with something untold, the locks in Redis
 * tell what it had (`jobsTakenBy`), and that a job has ended.
 */
import type { WorkerMessage } from '../../core/worker/ipc.ts';
import type { Post } from './outbox.ts';

/** What nobody is in a hurry for is told at the second tick: most jobs of a worker with many short ones have ended by then. */
const TICK_MS = 50;

interface ReportedJob {
  readonly queue: string;
  readonly jobId: string;
  readonly token: string;
  /** `works`: native code may work for it. */
  state: 'held' | 'works' | 'settled' | 'released';
  told: 'nothing' | 'held' | 'started';
  /** The tick before which there was something new to tell of it. */
  changedAt: number;
}

export class HeldReports {
  readonly #post: Post<WorkerMessage>;
  readonly #jobs = new Map<string, ReportedJob>();
  /** Those of which there is something to tell, in that order. */
  readonly #changed = new Set<ReportedJob>();
  #asked = false;
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param post sends within the same turn of the event loop */
  constructor(post: Post<WorkerMessage>) {
    this.#post = post;
  }

  /** A job was taken under this lock. */
  held(queue: string, jobId: string, token: string): void {
    const changedAt = this.#tick;
    const job: ReportedJob = { queue, jobId, token, state: 'held', told: 'nothing', changedAt };
    const key = keyOf(queue, jobId);
    // Taken once more, under another lock, by the same worker: what was said of the first time no longer counts.
    const earlier = this.#jobs.get(key);
    if (earlier !== undefined) this.#changed.delete(earlier);
    this.#jobs.set(key, job);
    this.#changed.add(job);
    this.#tellInAWhile();
  }

  /** Native code may work for it from the next turn of the event loop on: told before that. */
  started(queue: string, jobId: string): void {
    const job = this.#jobs.get(keyOf(queue, jobId));
    if (job?.state !== 'held') return;
    job.state = 'works';
    this.#changed.add(job);
    if (this.#asked) return;
    this.#asked = true;
    this.#post(() => {
      this.#asked = false;
      return [...this.#changed].some(({ state: now }) => now === 'works') ? this.#drain() : [];
    });
  }

  /** Nothing works for it any more. */
  settled(queue: string, jobId: string): void {
    const job = this.#jobs.get(keyOf(queue, jobId));
    if (job !== undefined && job.state !== 'released') job.state = 'settled';
  }

  /** The queue knows the job's end, or it is another worker's. */
  released(queue: string, jobId: string): void {
    const key = keyOf(queue, jobId);
    const job = this.#jobs.get(key);
    if (job === undefined) return;
    this.#jobs.delete(key);
    job.state = 'released';
    if (job.told === 'nothing') this.#changed.delete(job);
    else {
      job.changedAt = this.#tick;
      this.#changed.add(job);
      this.#tellInAWhile();
    }
  }

  /** Leaves nothing untold; for a process that is about to end. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#changed.size > 0) this.#post(() => this.#drain());
  }

  #tellInAWhile(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const earlier = [...this.#changed].filter(({ changedAt }) => changedAt < this.#tick);
      this.#tick += 1;
      if (earlier.length > 0) this.#post(() => this.#drain(earlier));
      if (earlier.length < this.#changed.size) this.#tellInAWhile();
    }, TICK_MS).unref();
  }

  /** Of these, what has not been told meanwhile, nor become needless. */
  #drain(jobs: Iterable<ReportedJob> = [...this.#changed]): WorkerMessage[] {
    const messages: WorkerMessage[] = [];
    for (const job of jobs) if (this.#changed.delete(job)) messages.push(...messagesOf(job));
    return messages;
  }
}

/** What is to be told of it now; it counts as told. */
function messagesOf(job: ReportedJob): WorkerMessage[] {
  const { queue, jobId, token, state, told } = job;
  if (state === 'released') return [{ type: 'released', queue, jobId }];
  job.told = state === 'works' ? 'started' : 'held';
  return [
    ...(told === 'nothing' ? [{ type: 'held', queue, jobId, token } as const] : []),
    ...(state === 'works' ? [{ type: 'started', queue, jobId } as const] : []),
  ];
}

function keyOf(queue: string, jobId: string): string {
  return `${queue}\n${jobId}`;
}
