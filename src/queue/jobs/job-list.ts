import type { JobType, Queue } from 'bullmq';
import { type JobState, type JobView, viewOf } from './job-view.ts';

const PAGE = 200;

/** Where BullMQ keeps the jobs of a state; cancelled jobs are among the failed ones, staged ones among the delayed. */
const PLACES: Record<JobState, readonly JobType[]> = {
  waiting: ['wait', 'prioritized', 'delayed'],
  delayed: ['delayed'],
  running: ['active'],
  completed: ['completed'],
  failed: ['failed'],
  cancelled: ['failed'],
};

export interface JobListOptions {
  /** @defaultValue every state */
  readonly states?: readonly JobState[] | undefined;
  readonly limit: number;
}

/** The jobs of these states whose latest change of state is the most recent, latest first. */
export async function listJobs(
  queue: Queue,
  { states, limit }: JobListOptions,
): Promise<JobView[]> {
  const wanted = new Set(states ?? Object.keys(PLACES));
  const places = new Set(
    Object.entries(PLACES).flatMap(([state, types]) => (wanted.has(state) ? types : [])),
  );
  const lists = await Promise.all([...places].map((type) => latest(queue, type, wanted, limit)));
  return lists
    .flat()
    .toSorted((a, b) => changedAt(b) - changedAt(a))
    .slice(0, limit);
}

async function latest(
  queue: Queue,
  type: JobType,
  wanted: ReadonlySet<string>,
  limit: number,
): Promise<JobView[]> {
  const found: JobView[] = [];
  const page = Math.min(PAGE, limit);
  for (let start = 0; found.length < limit; start += page) {
    const jobs = await queue.getJobs([type], start, start + page - 1, false);
    // A job that is removed meanwhile leaves a hole.
    const present = jobs.filter((job) => job?.id !== undefined);
    const views = await Promise.all(
      present.map((job) => viewOf(job, String(job.id), () => queue.getJob(String(job.id)))),
    );
    found.push(...views.flatMap((view) => (view && wanted.has(view.state) ? view : [])));
    if (jobs.length < page) break;
  }
  return found.slice(0, limit);
}

function changedAt({ finishedAt, startedAt, data }: JobView): number {
  return finishedAt ?? startedAt ?? data.submittedAt;
}
