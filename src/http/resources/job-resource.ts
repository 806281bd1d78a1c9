/** The JSON of a job. */

import { basename } from 'node:path';
import { errorRow } from '../../core/errors.ts';
import type { InputResource, JobResource } from '../../core/http/api.ts';
import { jobLinks } from '../../core/http/api.ts';
import type { JobInput } from '../../core/job/job.ts';
import { formatObjectAddress } from '../../core/s3-settings.ts';
import type { JobView } from '../../queue/jobs/job-view.ts';
import { inputName } from '../../storage/inputs.ts';

export function jobResource(view: JobView): JobResource {
  const { id, state, data, priority, progress, outcome, failure } = view;
  return {
    id,
    model: data.model,
    task: data.task,
    state,
    tenant: data.tenant,
    priority,
    input: inputResource(data.input),
    progress: progress ?? null,
    outcome: outcome === undefined ? null : shownOutcome(outcome),
    failure: failure === undefined ? null : { ...failure, type: errorRow(failure.code).type },
    attempts: view.attemptsMade,
    createdAt: isoTime(data.submittedAt),
    startedAt: isoTimeOrNull(view.startedAt),
    finishedAt: isoTimeOrNull(view.finishedAt),
    deadlineAt: isoTimeOrNull(data.clocks.deadlineAt),
    links: jobLinks(id),
  };
}

export function inputResource(input: JobInput): InputResource {
  switch (input.kind) {
    case 'path':
      return { kind: 'path', name: basename(input.path), path: input.path };
    case 'upload':
      return { kind: 'upload', name: input.name, uploadId: input.id };
    case 'object':
      return { kind: 'object', name: inputName(input), object: formatObjectAddress(input) };
    case 'url':
      return { kind: 'url', name: input.name, url: withoutSecrets(input.url) };
    default:
      return input satisfies never;
  }
}

/** A signed URL has its secret in the query. */
function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

/** Clients do not see the key of the result. */
export function shownOutcome({ resultKey: _, ...outcome }: NonNullable<JobView['outcome']>) {
  return outcome;
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

export function isoTimeOrNull(ms: number | undefined): string | null {
  return ms === undefined ? null : isoTime(ms);
}
