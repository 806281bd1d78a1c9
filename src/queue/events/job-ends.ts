/** Reads how jobs ended, together with the place in the event stream at which that is true. */

import type { Redis } from 'ioredis';
import { parseJson } from '../../core/lenient-parse.ts';
import { completedEnd, failedEnd, type JobEnd } from '../jobs/job-view.ts';
import { bullKey } from '../redis/queue-names.ts';

export interface JobEndsSnapshot<End = JobEnd> {
  /** Jobs that have ended or are unknown; the others are left out. */
  readonly ends: ReadonlyMap<string, End>;
  /** Id of the last event when the snapshot was taken. */
  readonly lastEventId: string;
}

/** What the end of a job is told as. */
export interface EndReader<End> {
  completed(returnValue: unknown): End;
  failed(reason: string): End;
  /** The queue does not know the job, or no longer. */
  removed(): End;
}

export const JOB_END_READER: EndReader<JobEnd> = {
  completed: completedEnd,
  failed: failedEnd,
  removed: () => ({ kind: 'removed' }),
};

/** Before the first event. */
const NO_EVENT = '0-0';

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export async function readLastEventId(connection: Redis, queue: string): Promise<string> {
  const [last] = await connection.xrevrange(
    bullKey(connection, queue, 'events'),
    '+',
    '-',
    'COUNT',
    1,
  );
  return last?.[0] ?? NO_EVENT;
}

/** One transaction, so that ends and place belong together. */
export async function readJobEnds<End>(
  connection: Redis,
  queue: string,
  ids: readonly string[],
  reader: EndReader<End>,
): Promise<JobEndsSnapshot<End>> {
  if (ids.length === 0) return { ends: new Map(), lastEventId: NO_EVENT };
  const transaction = connection
    .multi()
    .xrevrange(bullKey(connection, queue, 'events'), '+', '-', 'COUNT', 1)
    .zmscore(bullKey(connection, queue, 'completed'), ...ids)
    .zmscore(bullKey(connection, queue, 'failed'), ...ids);
  for (const id of ids) {
    transaction.hmget(bullKey(connection, queue, id), 'timestamp', 'returnvalue', 'failedReason');
  }
  const replies = (await transaction.exec()) ?? [];
  const failed = replies.find(([error]) => error !== null)?.[0];
  if (failed) throw failed;
  const [last, completedScores, failedScores, ...jobs] = replies.map(([, reply]) => list(reply));
  const ends = new Map<string, End>();
  for (const [index, id] of ids.entries()) {
    const [timestamp, returnValue, failedReason] = jobs[index] ?? [];
    if (timestamp == null) ends.set(id, reader.removed());
    else if (completedScores?.[index] != null) {
      ends.set(id, reader.completed(parseJson(returnValue)));
    } else if (failedScores?.[index] != null) ends.set(id, reader.failed(String(failedReason)));
  }
  return { ends, lastEventId: String(list(last?.[0])[0] ?? NO_EVENT) };
}
