/** The items of a batch, in the order in which they were submitted. */
import type { Redis } from 'ioredis';
import type { BatchId, BatchRecord } from '../../core/job/batch.ts';
import type { JobOutcome } from '../../core/job/job.ts';
import type { AudioQueue } from '../audio-queue.ts';
import type { JobFailure } from '../jobs/failures.ts';
import type { JobState, JobView } from '../jobs/job-view.ts';
import { toRedisError } from '../redis/connection.ts';
import { batchItemsKey } from '../redis/queue-names.ts';
import { type ItemFact, isCancelled, itemJobId, readFacts } from './batch-sets.ts';

export interface BatchItem {
  /** Place in the batch, from 0. */
  readonly index: number;
  /** Of its job. */
  readonly id: string;
  readonly state: JobState;
  /** When completed. */
  readonly outcome: JobOutcome | undefined;
  /** When failed or cancelled. */
  readonly failure: JobFailure | undefined;
}

export interface ListedItem extends BatchItem {
  /** Undefined once the queue has dropped the job, some time after its end. */
  readonly job: JobView | undefined;
}

export interface ItemPageOptions {
  readonly state?: JobState | undefined;
  readonly limit: number;
  /** The `next` of the page before. */
  readonly cursor?: number | undefined;
}

export interface ItemPage {
  readonly items: readonly ListedItem[];
  /** Undefined on the last page. */
  readonly next: number | undefined;
}

interface Place {
  readonly index: number;
  readonly key: string;
}

const CHUNK = 500;
/** Items that one call looks at: a filter that few pass makes short pages, not long waits. */
const MOST_EXAMINED = 10_000;

const ENDED: ReadonlySet<JobState> = new Set(['completed', 'failed', 'cancelled']);

export interface ItemSource {
  readonly connection: Redis;
  readonly id: BatchId;
  readonly record: BatchRecord;
}

/** @throws {WavepoolError} REDIS_UNAVAILABLE */
export async function readItemPage(
  source: ItemSource,
  queue: AudioQueue,
  { state, limit, cursor = 0 }: ItemPageOptions,
): Promise<ItemPage> {
  const items: ListedItem[] = [];
  for (let start = cursor; start - cursor < MOST_EXAMINED; start += CHUNK) {
    const places = await readPlaces(source, start);
    const facts = await readItemFacts(source, places);
    const candidates = places.flatMap((place, at) => {
      const fact = facts[at];
      return fact !== undefined && mayBe(fact, state) ? [{ place, fact }] : [];
    });
    for (let from = 0; from < candidates.length; from += limit) {
      const some = candidates.slice(from, from + limit);
      const jobs = await queue.getMany(
        some.map(({ place }) => itemJobId(source.record, place.key)),
      );
      for (const { place, fact } of some) {
        const id = itemJobId(source.record, place.key);
        const item = listedItem(place, id, fact, jobs.get(id));
        if (state !== undefined && item.state !== state) continue;
        items.push(item);
        if (items.length === limit) return { items, next: place.index + 1 };
      }
    }
    if (places.length < CHUNK) return { items, next: undefined };
  }
  return { items, next: cursor + MOST_EXAMINED };
}

/** The items that have ended, as they are read: what ends after its place was passed is not told. */
export async function* readEndedItems(source: ItemSource): AsyncGenerator<BatchItem> {
  for (let start = 0; ; start += CHUNK) {
    const places = await readPlaces(source, start);
    const facts = await readItemFacts(source, places);
    for (const [at, place] of places.entries()) {
      const fact = facts[at];
      if (fact === undefined) continue;
      const item = itemOf(place, itemJobId(source.record, place.key), fact);
      if (ENDED.has(item.state)) yield item;
    }
    if (places.length < CHUNK) return;
  }
}

async function readPlaces({ connection, id }: ItemSource, start: number): Promise<Place[]> {
  try {
    const keys = await connection.zrange(
      batchItemsKey(connection, id),
      String(start),
      String(start + CHUNK - 1),
    );
    return keys.map((key, at) => ({ index: start + at, key }));
  } catch (error) {
    throw toRedisError(error);
  }
}

async function readItemFacts(
  { connection, id, record }: ItemSource,
  places: readonly Place[],
): Promise<(ItemFact | undefined)[]> {
  try {
    return await readFacts(
      connection,
      id,
      record,
      places.map(({ key }) => key),
    );
  } catch (error) {
    throw toRedisError(error);
  }
}

/** Before the job is looked at. */
function mayBe(fact: ItemFact, state: JobState | undefined): boolean {
  if (state === undefined) return true;
  if (fact.kind === 'pending') return !ENDED.has(state);
  return stateOf(fact) === state;
}

function stateOf(fact: ItemFact): JobState {
  switch (fact.kind) {
    case 'completed':
      return 'completed';
    case 'failed':
      return isCancelled(fact.failure) ? 'cancelled' : 'failed';
    case 'pending':
    case 'removed':
      return 'waiting';
    default:
      return fact satisfies never;
  }
}

function itemOf({ index }: Place, id: string, fact: ItemFact): BatchItem {
  return {
    index,
    id,
    state: stateOf(fact),
    outcome: fact.kind === 'completed' ? fact.outcome : undefined,
    failure: fact.kind === 'failed' ? fact.failure : undefined,
  };
}

/** The job was read after the parent's sets and knows better. */
function listedItem(
  place: Place,
  id: string,
  fact: ItemFact,
  job: JobView | undefined,
): ListedItem {
  const item = itemOf(place, id, fact);
  if (job === undefined) return { ...item, job };
  return { ...item, state: job.state, outcome: job.outcome, failure: job.failure, job };
}
