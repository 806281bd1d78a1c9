/** Jobs that come again and again: at times of a calendar (cron), or every so often. */
import { z } from 'zod';
import { parse } from '../parse.ts';
import { MAX_DELAY_MS, ModelId, NewJob } from './job.ts';

export const ScheduleId = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'a schedule id is a-z, 0-9, ".", "_", "-", at most 64');
export type ScheduleId = z.infer<typeof ScheduleId>;

const TimeZone = z
  .string()
  .max(64)
  .refine(isTimeZone, 'the time zone is none, such as Europe/Berlin');

/** Members of a schedule that tell when; see `hasOneTiming`. */
export const timingMembers = {
  cron: z
    .string()
    .min(1)
    .max(128)
    .meta({
      description: 'five fields, or six with seconds first: 0 3 * * * is at three each night',
    })
    .optional(),
  everyMs: z.int().min(1_000).max(MAX_DELAY_MS).optional(),
  timezone: TimeZone.meta({ description: 'of the cron fields; UTC when left out' }).optional(),
};

const Timing = z.strictObject(timingMembers);
export type ScheduleTiming = z.infer<typeof Timing>;

export const ONE_TIMING = 'give exactly one of cron and everyMs; only cron has a timezone';

export function hasOneTiming({ cron, everyMs, timezone }: ScheduleTiming): boolean {
  return (
    (cron === undefined) !== (everyMs === undefined) &&
    (timezone === undefined || cron !== undefined)
  );
}

/** What comes due, as it lies in Redis. */
export const ScheduledJob = z.strictObject({
  model: ModelId,
  /** Each time from then to the end of the job. */
  deadlineMs: z.int().min(1).optional(),
  /** Its id is made when it comes due. */
  job: NewJob.refine(({ id }) => id === undefined, 'a schedule makes the ids of its jobs'),
});
export type ScheduledJob = z.infer<typeof ScheduledJob>;

/** What a producer hands in. */
export const NewSchedule = Timing.extend({
  id: ScheduleId,
  ...ScheduledJob.shape,
}).refine(hasOneTiming, ONE_TIMING);
export type NewSchedule = z.input<typeof NewSchedule>;

/** @throws {WavepoolError} INVALID_REQUEST */
export function parseNewSchedule(raw: unknown): z.output<typeof NewSchedule> {
  return parse(NewSchedule, raw, 'schedule');
}

/** The job that a schedule makes at a time; the same however often it is asked for. */
export function scheduledJobId(schedule: ScheduleId, dueAt: number): string {
  return `schedule-${schedule}-${dueAt}`;
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
