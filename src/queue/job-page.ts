/**
 * Jobs of all queues, page by page. A listing walks through the places of each queue in the order in which jobs pass them
 * and remembers the last job, not a number of jobs: whatever is added or ends meanwhile, a job that stays where it is comes
 * exactly once, and one that moves on comes again, in its newer state.
 */
import type { Redis } from 'ioredis';
import type { ModelId } from '../core/job/job.ts';
import type { JobCursor, JobPlace } from '../core/job/job-cursor.ts';
import { JobPlace as JobPlaces } from '../core/job/job-cursor.ts';
import type { JobState, JobView } from './jobs/job-view.ts';
import type { QueueRegistry } from './queue-registry.ts';
import { toRedisError } from './redis/connection.ts';
import { bullKey, queueNameOf } from './redis/queue-names.ts';
import { STAGED_SCORES } from './tenants/fair-share.ts';

export interface JobPageOptions {
  readonly state?: JobState | undefined;
  readonly model?: ModelId | undefined;
  readonly tenant?: string | undefined;
  readonly limit: number;
  readonly cursor?: JobCursor | undefined;
}

export interface JobPage {
  readonly views: readonly JobView[];
  /** Undefined on the last page. */
  readonly next: JobCursor | undefined;
}

interface Entry {
  readonly id: string;
  readonly score: string;
}

/** Jobs that one call looks at: a filter that few pass makes short pages, not long waits. */
const MOST_EXAMINED = 2_000;

/** In front of the staged jobs, which lie behind all that are delayed. */
const BEFORE_STAGED: Entry = { id: '', score: String(STAGED_SCORES.from - 1) };

const PLACES_OF: Record<JobState, readonly JobPlace[]> = {
  waiting: ['delayed', 'waiting-children', 'prioritized', 'wait', 'paused'],
  delayed: ['delayed'],
  running: ['active'],
  completed: ['completed'],
  failed: ['failed'],
  cancelled: ['failed'],
};

/**
 * Finished jobs come latest first, delayed ones in the order in which they are due.
 * @throws {WavepoolError} REDIS_UNAVAILABLE, MODEL_UNKNOWN
 */
export async function readJobPage(
  queues: QueueRegistry,
  options: JobPageOptions,
): Promise<JobPage> {
  const { state, tenant, limit } = options;
  const views: JobView[] = [];
  let examined = 0;
  for (const start of await startsOf(queues, options)) {
    let { after } = start;
    for (;;) {
      if (views.length === limit || examined >= MOST_EXAMINED) {
        return { views, next: { ...start, after } };
      }
      const entries = await readEntries(queues.connection, { ...start, after }, limit);
      const queue = await queues.queueOf(start.model);
      const found = await queue.getMany(entries.map(({ id }) => id));
      for (const entry of entries) {
        after = entry;
        examined += 1;
        const view = found.get(entry.id);
        const fits =
          view !== undefined &&
          (state === undefined || view.state === state) &&
          (tenant === undefined || view.data.tenant === tenant);
        if (fits) views.push(view);
        if (views.length === limit) break;
      }
      if (entries.length < limit && views.length < limit) break;
    }
  }
  return { views, next: undefined };
}

/** The places that are still to be walked through. */
async function startsOf(queues: QueueRegistry, options: JobPageOptions): Promise<JobCursor[]> {
  const { state, model, cursor } = options;
  const models = model === undefined ? await queues.models() : [model];
  const places = state === undefined ? JobPlaces.options : PLACES_OF[state];
  const starts = models.flatMap((each) =>
    places.map((place): JobCursor => {
      const isStaging = place === 'delayed' && state === 'waiting';
      return { model: each, place, ...(isStaging ? { after: BEFORE_STAGED } : {}) };
    }),
  );
  if (cursor === undefined) return starts;
  const isAhead = (start: JobCursor): boolean =>
    start.model > cursor.model ||
    (start.model === cursor.model && orderOf(start.place) > orderOf(cursor.place));
  return [cursor, ...starts.filter(isAhead)];
}

function orderOf(place: JobPlace): number {
  return JobPlaces.options.indexOf(place);
}

async function readEntries(connection: Redis, from: JobCursor, count: number): Promise<Entry[]> {
  const key = bullKey(connection, queueNameOf(from.model), from.place);
  try {
    switch (from.place) {
      case 'wait':
      case 'paused':
      case 'active':
        return byId(await connection.lrange(key, '0', '-1'), from.after, count);
      case 'prioritized':
        return byId(await connection.zrange(key, '0', '-1'), from.after, count);
      case 'delayed':
      case 'waiting-children':
        return await readSet(connection, key, from.after, { count, ascending: true });
      case 'completed':
      case 'failed':
        return await readSet(connection, key, from.after, { count, ascending: false });
      default:
        return from.place satisfies never;
    }
  } catch (error) {
    throw toRedisError(error);
  }
}

/**
 * Lists shift at both ends, and jobs of one tenant pass on their places: an order of theirs is no place to go on from; that of
 * the ids is.
 */
function byId(ids: readonly string[], after: Entry | undefined, count: number): Entry[] {
  return ids
    .toSorted(compare)
    .filter((id) => after === undefined || compare(id, after.id) > 0)
    .slice(0, count)
    .map((id) => ({ id, score: '' }));
}

async function readSet(
  connection: Redis,
  key: string,
  after: Entry | undefined,
  { count, ascending }: { readonly count: number; readonly ascending: boolean },
): Promise<Entry[]> {
  // Members of one score are ordered by their names: those up to the last one are read again and left out.
  const again = after === undefined ? 0 : await connection.zcount(key, after.score, after.score);
  const limit = ['LIMIT', 0, count + again] as const;
  const pairs = ascending
    ? await connection.zrangebyscore(key, after?.score ?? '-inf', '+inf', 'WITHSCORES', ...limit)
    : await connection.zrevrangebyscore(
        key,
        after?.score ?? '+inf',
        '-inf',
        'WITHSCORES',
        ...limit,
      );
  const entries: Entry[] = [];
  for (let at = 0; at < pairs.length; at += 2) {
    entries.push({ id: String(pairs[at]), score: String(pairs[at + 1]) });
  }
  const sign = ascending ? 1 : -1;
  const isNew = ({ id, score }: Entry): boolean =>
    after === undefined || score !== after.score || sign * compare(id, after.id) > 0;
  return entries.filter(isNew).slice(0, count);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
