/** What bull-board may show of a job: no transcript, no secret, and of a path only the file's name. */
import { basename } from 'node:path';
import { parseFailure } from '../../core/errors.ts';
import { JobData, JobOutcome, JobProgress } from '../../core/job/job.ts';
import { inputResource } from '../resources/job-resource.ts';

export function boardData(raw: unknown): unknown {
  const parsed = JobData.safeParse(raw);
  if (!parsed.success) return {};
  const { input, task, model, tenant, clocks, crashCount, partials } = parsed.data;
  const { kind, name } = inputResource(input);
  return { input: { kind, name }, task, model, tenant, clocks, crashCount, partials };
}

export function boardReturnValue(raw: unknown): unknown {
  const parsed = JobOutcome.safeParse(raw);
  if (!parsed.success) return null;
  const { resultKey: _, ...outcome } = parsed.data;
  return outcome;
}

export function boardProgress(raw: unknown): unknown {
  return JobProgress.safeParse(raw).data ?? 0;
}

/** In front of the file's name a message may tell where it lies. */
const FOLDERS = /(?<![\w.:/])(?:\/[^/\s'"]+)+/g;

export function boardFailure(reason: string): string {
  const { code, message } = parseFailure(reason);
  return `${code}: ${message.replace(FOLDERS, (path) => basename(path))}`;
}
