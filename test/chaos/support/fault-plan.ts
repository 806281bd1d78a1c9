/** Which jobs hurt the worker that runs them: told by the length of their audio, which every kind of job keeps. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

/** Whole windows of the fake detector, all of them speech: each recording is one segment of just its samples. */
export const PLAIN_SECONDS = 1.024;
/** Native code aborts on it. */
export const ABORT_SECONDS = 2.048;
/** Native code never comes back from it. */
export const HANG_SECONDS = 3.072;
/** The event loop stands still when it is begun, once. */
export const BLOCK_SECONDS = 4.096;

export const FaultPlan = z.strictObject({
  /** Every batch takes at least so long. */
  paceMs: z.int().min(0).default(0),
  /** How long a recording of `BLOCK_SECONDS` blocks the event loop. */
  blockMs: z.int().min(0).default(0),
  /** Every batch leaves a note of its size: see `recognizedBy`. */
  notes: z.boolean().default(false),
});
export type FaultPlan = z.infer<typeof FaultPlan>;

const PLAN = 'fault-plan.json';
const BLOCKED = 'blocked-once';
const NOTES = 'batches';

export function writeFaultPlan(folder: string, plan: z.input<typeof FaultPlan>): void {
  writeFileSync(join(folder, PLAN), JSON.stringify(plan));
}

export function readFaultPlan(folder: string): FaultPlan {
  const file = join(folder, PLAN);
  return FaultPlan.parse(existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {});
}

/** True for the first who asks, in any process. */
export function claimBlock(folder: string): boolean {
  try {
    writeFileSync(join(folder, BLOCKED), '', { flag: 'wx' });
    return true;
  } catch {
    return false;
  }
}

export function noteBatch(folder: string, items: number): void {
  appendFileSync(join(folder, NOTES), `${process.pid} ${items}\n`);
}

/** Segments that went to native code so far, by process; those that it did not finish included. */
export function recognizedBy(folder: string): ReadonlyMap<number, number> {
  const file = join(folder, NOTES);
  const counts = new Map<number, number>();
  for (const line of existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []) {
    const [pid = 0, items = 0] = line.split(' ').map(Number);
    counts.set(pid, (counts.get(pid) ?? 0) + items);
  }
  return counts;
}
