/** The events of one job of a queue as an async iterator, in the words of the HTTP interface's event streams. */

import { errorRow } from '../../core/errors.ts';
import type { FailureResource } from '../../core/http/api.ts';
import type { JobId, JobOutcome, JobProgress, ModelId } from '../../core/job/job.ts';
import type { JobEnd } from '../jobs/job-view.ts';
import { toRedisError } from '../redis/connection.ts';
import type { JobEvents, JobListener } from './job-events.ts';

interface About<Type extends string> {
  readonly type: Type;
  readonly model: ModelId;
  readonly jobId: JobId;
}

export type JobEvent =
  | About<'job.waiting'>
  | About<'job.running'>
  | About<'job.stalled'>
  | (About<'job.progress'> & { readonly progress: JobProgress })
  | (About<'job.completed'> & { readonly outcome: JobOutcome })
  | (About<'job.failed'> & { readonly failure: FailureResource })
  | About<'job.removed'>;

/** The last one of a job. */
function endEvent(about: Omit<About<string>, 'type'>, end: JobEnd): JobEvent {
  switch (end.kind) {
    case 'completed':
      return { type: 'job.completed', ...about, outcome: end.outcome };
    case 'failed': {
      const failure = { ...end.failure, type: errorRow(end.failure.code).type };
      return { type: 'job.failed', ...about, failure };
    }
    case 'removed':
      return { type: 'job.removed', ...about };
    default:
      return end satisfies never;
  }
}

export interface FollowedJob {
  readonly model: ModelId;
  readonly id: JobId;
  readonly signal?: AbortSignal | undefined;
}

/** See `AudioQueue.events`. */
export async function* followJobEvents(
  events: JobEvents,
  { model, id, signal }: FollowedJob,
): AsyncGenerator<JobEvent, void> {
  const left = new AbortController();
  const story = new Story();
  const about = { model, jobId: id };
  const forget = listen(events, id, (name, progress) => {
    if (name !== 'progress') story.put({ type: `job.${name}`, ...about });
    else if (progress !== undefined) story.put({ type: 'job.progress', ...about, progress });
  });
  // The end is known from the job's state, too: it comes even if its event is lost.
  events
    .waitForEnd(id, signal === undefined ? left.signal : AbortSignal.any([signal, left.signal]))
    .then(
      (end) => story.end(endEvent(about, end)),
      (error: unknown) => story.fail(signal?.aborted ? signal.reason : toRedisError(error)),
    );
  try {
    yield* story.told();
  } finally {
    forget();
    left.abort();
  }
}

type Listener = (
  name: 'waiting' | 'running' | 'stalled' | 'progress',
  progress?: JobProgress,
) => void;

/** Returns what ends it. */
function listen(events: JobEvents, id: JobId, tell: Listener): () => void {
  const names = ['waiting', 'running', 'stalled'] as const;
  const listeners = names.map((name) => {
    const listener = (event: { readonly id: string }): void => {
      if (event.id === id) tell(name);
    };
    events.on(name, listener);
    return () => events.off(name, listener);
  });
  const onProgress: JobListener<'progress'> = (event) => {
    if (event.id === id) tell('progress', event.progress);
  };
  events.on('progress', onProgress);
  return () => {
    for (const forget of listeners) forget();
    events.off('progress', onProgress);
  };
}

/** What was heard and not yet told. Of progress only the latest counts, so that slow readers hold little. */
class Story {
  readonly #pending: JobEvent[] = [];
  #last: { readonly event: JobEvent } | { readonly error: unknown } | undefined;
  #wake: () => void = () => undefined;

  put(event: JobEvent): void {
    if (this.#last !== undefined) return;
    const isProgress = event.type === 'job.progress';
    if (isProgress && this.#pending.at(-1)?.type === 'job.progress') this.#pending.pop();
    this.#pending.push(event);
    this.#wake();
  }

  end(event: JobEvent): void {
    this.#last = { event };
    this.#wake();
  }

  fail(error: unknown): void {
    this.#last = { error };
    this.#wake();
  }

  async *told(): AsyncGenerator<JobEvent, void> {
    for (;;) {
      const event = this.#pending.shift();
      if (event !== undefined) yield event;
      else if (this.#last === undefined) await this.#news();
      else if ('error' in this.#last) throw this.#last.error;
      else {
        yield this.#last.event;
        return;
      }
    }
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}
