/** The JSON of batches of jobs and their items, and their cursors. */

import { errorRow, WavepoolError } from '../../core/errors.ts';
import { jobLinks } from '../../core/http/api.ts';
import type { BatchItemResource, BatchResource } from '../../core/http/batch-api.ts';
import { batchLinks } from '../../core/http/batch-api.ts';
import type { BatchView } from '../../core/job/batch.ts';
import type { ListedItem } from '../../queue/batches/batch-items.ts';
import type { BatchCursor } from '../../queue/batches/batch-list.ts';
import type { JobFailure } from '../../queue/jobs/failures.ts';
import { inputResource, isoTime, isoTimeOrNull, shownOutcome } from './job-resource.ts';

export function batchResource(view: BatchView): BatchResource {
  const { id, name, tenant, model, task, directory, state, counts, interrupted } = view;
  return {
    id,
    name: name ?? null,
    tenant,
    model,
    task,
    directory: directory ?? null,
    state,
    counts,
    interrupted,
    createdAt: isoTime(view.createdAt),
    finishedAt: isoTimeOrNull(view.finishedAt),
    links: batchLinks(id),
  };
}

export function batchItemResource({
  index,
  id,
  state,
  job,
  outcome,
  failure,
}: ListedItem): BatchItemResource {
  return {
    index,
    id,
    state,
    input: job === undefined ? null : inputResource(job.data.input),
    outcome: outcome === undefined ? null : shownOutcome(outcome),
    failure: failure === undefined ? null : failureResource(failure),
    links: jobLinks(id),
  };
}

export function failureResource(failure: JobFailure) {
  return { ...failure, type: errorRow(failure.code).type };
}

/** Cursors are opaque to clients: they send back the one that they got. */
export function encodeBatchCursor({ createdAt, id }: BatchCursor): string {
  return Buffer.from(`${createdAt}:${id}`).toString('base64url');
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function decodeBatchCursor(text: string): BatchCursor {
  const plain = Buffer.from(text, 'base64url').toString('utf8');
  const [, createdAt, id] = /^(\d{1,16}):(.+)$/.exec(plain) ?? [];
  if (createdAt === undefined || id === undefined) throw foreignCursor();
  return { createdAt: Number(createdAt), id };
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function decodeItemCursor(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw foreignCursor();
  return Number(text);
}

function foreignCursor(): WavepoolError {
  return new WavepoolError('INVALID_REQUEST', 'cursor: it is none of this server');
}
