/**
 * Parses the data of one job after another. Those of a queue mostly differ in their input and their time alone: what is the
 * same as in the job before has been checked and completed already.
 */
import { z } from 'zod';
import { type JobData, JobInput, parseJobData } from './job.ts';

/** What is checked for every job. No member depends on these, and they depend on none. */
const OwnMembers = z.object({ input: JobInput, submittedAt: z.int().min(0) });
const OWN = new Set(Object.keys(OwnMembers.shape));

export class JobDataParser {
  #last: { readonly raw: object; readonly parsed: JobData } | undefined;

  /**
   * As `parseJobData`. What it returns may share members with what it returned before.
   * @throws {WavepoolError} JOB_TOO_NEW, INVALID_REQUEST
   */
  parse(raw: unknown): JobData {
    if (this.#last !== undefined && differInOwnAlone(this.#last.raw, raw)) {
      const own = OwnMembers.safeParse(raw).data;
      if (own !== undefined) return { ...this.#last.parsed, ...own };
    }
    const parsed = parseJobData(raw);
    if (isObject(raw)) this.#last = { raw, parsed };
    return parsed;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function differInOwnAlone(a: object, b: unknown): boolean {
  return isObject(b) && isSame(a, b, OWN);
}

/** Of what JSON can say. */
function isSame(a: unknown, b: unknown, except?: ReadonlySet<string>): boolean {
  if (a === b) return true;
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  let members = 0;
  for (const key in a) {
    members += 1;
    if (!Object.hasOwn(b, key)) return false;
    if (except?.has(key) !== true && !isSame(a[key], b[key])) return false;
  }
  return members === Object.keys(b).length;
}
