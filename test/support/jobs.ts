import type { NewJob } from '../../src/core/job/job.ts';

/** A job for a file that nobody reads. */
export function jobNamed(id: string, more: Partial<NewJob> = {}): NewJob {
  return { id, input: { kind: 'path', path: `/audio/${id}.wav` }, ...more };
}
