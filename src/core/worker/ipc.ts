/** Messages between a worker process and its supervisor. */
import { z } from 'zod';
import { WorkerPresence } from './status.ts';
import { WorkerSettings } from './worker-settings.ts';

/** How often a worker says that it is alive. */
export const ALIVE_MS = 1_000;

/** A job under a worker's lock; with the token its supervisor can hand it back. */
export const HeldJob = z.strictObject({ jobId: z.string().min(1), token: z.string().min(1) });

/**
 * What the death of its worker says about a job. `none`: it had not been started, or the worker was ended on purpose.
 * `killed`: somebody sent SIGKILL, perhaps the system for want of memory. `crashed`: the worker died of itself.
 */
export type Blame = 'none' | 'killed' | 'crashed';

/** As its supervisor judges it. */
export interface HeldJob extends z.infer<typeof HeldJob> {
  /** @defaultValue 'crashed' */
  readonly blame?: Blame;
}

export const WorkerMessage = z.discriminatedUnion('type', [
  /** Models are loaded and jobs are being taken. */
  z.strictObject({ type: z.literal('ready') }),
  /** The locks of the jobs that it takes from this queue from now on begin with this id. */
  z.strictObject({ type: z.literal('taking'), queue: z.string(), workerId: z.string().min(1) }),
  /** Sent before the first step of a job. */
  z.strictObject({ type: z.literal('held'), queue: z.string(), ...HeldJob.shape }),
  /** Sent before anything is read or computed for the job. */
  z.strictObject({ type: z.literal('started'), queue: z.string(), jobId: z.string() }),
  /** Sent once the queue knows the job's end. */
  z.strictObject({ type: z.literal('released'), queue: z.string(), jobId: z.string() }),
  /** Sent from time to time; the same is published for the world. */
  z.strictObject({ type: z.literal('status'), status: WorkerPresence }),
  /** Sent every `ALIVE_MS`: the event loop turns. Names the native batch that has been running longest. */
  z.strictObject({ type: z.literal('alive'), oldestRun: z.int().nullable() }),
  /** The worker ends on purpose, with a code of the error table. */
  z.strictObject({ type: z.literal('failed'), code: z.string(), detail: z.string() }),
]);
export type WorkerMessage = z.infer<typeof WorkerMessage>;

export const SupervisorMessage = z.discriminatedUnion('type', [
  /** The first message: load these models and take jobs. */
  z.strictObject({ type: z.literal('start'), settings: WorkerSettings }),
  /** Take no more jobs, finish what is held within `deadlineMs`, then exit. */
  z.strictObject({ type: z.literal('shutdown'), deadlineMs: z.int().min(0) }),
]);
export type SupervisorMessage = z.infer<typeof SupervisorMessage>;

/** The message, or nothing for one of another version or sender. */
export function parseWorkerMessage(raw: unknown): WorkerMessage | undefined {
  return WorkerMessage.safeParse(raw).data;
}

/** The message, or nothing for one of another version or sender. */
export function parseSupervisorMessage(raw: unknown): SupervisorMessage | undefined {
  return SupervisorMessage.safeParse(raw).data;
}
