/** What is said of an end, and the id under which it is said: the same end always has the same. */
import { createHash } from 'node:crypto';
import { errorRow } from '../../core/errors.ts';
import { jobLinks } from '../../core/http/api.ts';
import { batchLinks } from '../../core/http/batch-api.ts';
import type { BatchMessage, DeliveryData, JobMessage } from '../../core/http/webhook-message.ts';
import type { BatchView } from '../../core/job/batch.ts';
import type { JobWebhookEvent } from '../../core/webhook.ts';
import type { JobView } from '../jobs/job-view.ts';

export interface NewDelivery {
  readonly id: string;
  readonly data: DeliveryData;
}

const ENDS: readonly string[] = ['completed', 'failed', 'cancelled'] satisfies JobWebhookEvent[];

function isEnd(state: string): state is JobWebhookEvent {
  return ENDS.includes(state);
}

/** Nothing for a job that has not ended, or whose webhook does not ask for this end. */
export function jobDelivery(
  queue: string,
  view: JobView,
  batchId: string | null,
): NewDelivery | undefined {
  const { id, state, data, finishedAt } = view;
  const { webhook, tenant } = data;
  if (webhook === undefined || finishedAt === undefined || !isEnd(state)) return undefined;
  if (!webhook.events.includes(state)) return undefined;
  const message = jobMessage(view, state, finishedAt, batchId);
  return {
    id: deliveryId(['job', queue, id, finishedAt]),
    data: {
      event: message.type,
      subject: { kind: 'job', queue, id },
      tenant,
      url: webhook.url,
      body: JSON.stringify(message),
    },
  };
}

function jobMessage(
  { id, data, attemptsMade, outcome, failure }: JobView,
  state: JobWebhookEvent,
  finishedAt: number,
  batchId: string | null,
): JobMessage {
  return {
    type: `job.${state}`,
    timestamp: isoTime(finishedAt),
    data: {
      id,
      batchId,
      model: data.model,
      task: data.task,
      tenant: data.tenant,
      state,
      attempts: attemptsMade,
      createdAt: isoTime(data.submittedAt),
      finishedAt: isoTime(finishedAt),
      outcome: outcome === undefined ? null : withoutKey(outcome),
      failure: failure === undefined ? null : { ...failure, type: errorRow(failure.code).type },
      links: jobLinks(id),
    },
  };
}

function withoutKey({ resultKey: _, ...outcome }: NonNullable<JobView['outcome']>) {
  return outcome;
}

/** Nothing for a batch that has not finished, or whose webhook does not ask for that. */
export function batchDelivery(view: BatchView): NewDelivery | undefined {
  const { id, webhook, finishedAt, tenant } = view;
  if (webhook === undefined || finishedAt === undefined) return undefined;
  if (!webhook.events.includes('finished')) return undefined;
  const message = batchMessage(view, finishedAt);
  return {
    id: deliveryId(['batch', id, finishedAt]),
    data: {
      event: message.type,
      subject: { kind: 'batch', id },
      tenant,
      url: webhook.url,
      body: JSON.stringify(message),
    },
  };
}

function batchMessage(view: BatchView, finishedAt: number): BatchMessage {
  const { id, name, model, task, tenant, state, counts, createdAt } = view;
  return {
    type: 'batch.finished',
    timestamp: isoTime(finishedAt),
    data: {
      ...{ id, name: name ?? null, model, task, tenant, state, counts },
      createdAt: isoTime(createdAt),
      finishedAt: isoTime(finishedAt),
      links: batchLinks(id),
    },
  };
}

/** Without a full stop, which separates what is signed. */
function deliveryId(end: readonly (string | number)[]): string {
  const hash = createHash('sha256').update(JSON.stringify(end)).digest('hex');
  return `msg_${hash.slice(0, 32)}`;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
