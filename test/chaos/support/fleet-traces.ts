/** Whether jobs can be followed from their producer to the native batches of a worker. */
import type { CollectedSpan } from '../../support/span-collector-program.ts';

export interface TracedJobs {
  /** Jobs whose worker has told of them: a killed one takes with it what it had not sent. */
  readonly seen: number;
  /** Of these, jobs whose trace has their wait and commit, and whose every segment is a member of a native batch. */
  readonly whole: number;
  /** Traces in which a server has told who submitted the jobs. */
  readonly submitted: readonly string[];
}

export function jobTraces(spans: readonly CollectedSpan[]): TracedJobs {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const children = new Map<string, CollectedSpan[]>();
  for (const span of spans) {
    const { parentSpanId: parent = '' } = span;
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [span]);
    else siblings.push(span);
  }
  const jobs = spans.filter(({ name, role }) => name === 'job' && role === 'worker');
  const isWhole = (job: CollectedSpan): boolean => {
    const steps = children.get(job.spanId) ?? [];
    const segments = steps.filter(({ name }) => name === 'recognize');
    const isMember = (segment: CollectedSpan) => {
      const batch = byId.get(segment.links?.[0]?.spanId ?? '');
      const members = batch?.links?.map(({ spanId }) => spanId) ?? [];
      return batch?.name === 'native batch' && members.includes(segment.spanId);
    };
    const has = (name: string) => steps.some((step) => step.name === name);
    return has('queue wait') && has('commit') && segments.length > 0 && segments.every(isMember);
  };
  const submissions = spans.filter(({ name, role }) => name === 'submit' && role === 'server');
  return {
    seen: new Set(jobs.map(jobIdOf)).size,
    whole: new Set(jobs.filter(isWhole).map(jobIdOf)).size,
    submitted: [...new Set(submissions.map(({ traceId }) => traceId))],
  };
}

function jobIdOf({ attributes }: CollectedSpan): string {
  const id = attributes.find(({ key }) => key === 'wavepool.job.id');
  return String(Object.values(id?.value ?? {})[0]);
}
