/**
 * A batch in BullMQ's terms: a parent job in a queue of its own, whose children are the batch's jobs in their model's queue.
 *
 * BullMQ moves a child between the parent's sets in the same step in which the child ends or is retried, so what they say is
 * exact whatever crashes. An ended child stays there when its own job has been dropped. Three things are ours:
 *
 * - The parent would finish as soon as its first children have, while more are being added. One more child, the gate, is
 *   there from the beginning and is taken away at the end. It is a delayed job of the parent's own queue: when its producer
 *   is never heard of again, its time comes, and housekeeping lets the batch go on with what it has.
 * - Children are added in bulks with `ignoreDependencyOnFailure`: one flow of all of them would be a single transaction that
 *   stops producer and server for seconds, and a failed child must not keep the parent waiting.
 * - A finished parent does not wait again by itself when a child is retried: see `wakeParent`. Adding a child that has failed
 *   once more would make the parent wait for ever: nothing here adds an item that the parent's sets know.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FlowProducer, JobsOptions, Queue } from 'bullmq';
import type { BatchId, BatchRecord } from '../../core/job/batch.ts';
import { BATCH_QUEUE, batchGateId } from '../redis/queue-names.ts';

/** Names of the jobs of the batches' queue. */
export const PARENT_JOB = 'batch';
export const GATE_JOB = 'gate';

/** Of a gate. */
export interface GateData {
  readonly batchId: BatchId;
  /** After this much silence of the producer the gate opens by itself. */
  readonly idleMs: number;
}

/** Housekeeping that fails, as when Redis goes away, tries again. */
const PERSISTENT: JobsOptions = { attempts: 1_000, backoff: { type: 'fixed', delay: 1_000 } };

const REMOVE_ATTEMPTS = 50;
const REMOVE_PAUSE_MS = 100;

function gateOptions({ batchId, idleMs }: GateData): JobsOptions & { jobId: string } {
  return {
    ...PERSISTENT,
    jobId: batchGateId(batchId),
    delay: idleMs,
    removeOnComplete: true,
    removeOnFail: true,
    ignoreDependencyOnFailure: true,
  };
}

/** Parent and gate in one step. Changes nothing when they are there. */
export async function addParent(
  flows: FlowProducer,
  record: BatchRecord,
  gate: GateData,
): Promise<void> {
  await flows.add({
    name: PARENT_JOB,
    queueName: BATCH_QUEUE,
    data: record,
    opts: { ...PERSISTENT, jobId: gate.batchId, timestamp: record.createdAt },
    children: [{ name: GATE_JOB, queueName: BATCH_QUEUE, data: gate, opts: gateOptions(gate) }],
  });
}

/** Keeps the batch from finishing until `removeGate`, or until the gate's time has come. */
export async function addGate(queue: Queue, gate: GateData): Promise<void> {
  const parent = { id: gate.batchId, queue: queue.qualifiedName };
  await queue.add(GATE_JOB, gate, { ...gateOptions(gate), parent });
}

/** Idempotent. */
export async function removeGate(queue: Queue, batchId: BatchId): Promise<void> {
  for (let attempt = 1; attempt <= REMOVE_ATTEMPTS; attempt++) {
    if ((await queue.remove(batchGateId(batchId))) === 1) return;
    // Housekeeping is looking at it just now; whatever it finds, it soon lets go.
    await sleep(REMOVE_PAUSE_MS);
  }
}

/** Makes a parent that has finished wait for its children again; harmless at any other time. */
export async function wakeParent(queue: Queue, batchId: BatchId): Promise<void> {
  const job = await queue.getJob(batchId);
  const state = await job?.getState();
  if (job === undefined || (state !== 'completed' && state !== 'failed')) return;
  try {
    await job.retry(state, { resetAttemptsMade: true, resetAttemptsStarted: true });
  } catch (error) {
    // Somebody else was quicker.
    if ((await job.getState()) === state) throw error;
  }
}
