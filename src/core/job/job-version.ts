/** Old and new workers side by side: the data of each job says which version of it was written. */
import { z } from 'zod';
import { WavepoolError } from '../errors.ts';

export const JOB_SCHEMA_VERSION = 1;

const JobVersion = z.looseObject({ schemaVersion: z.int() });

/** Whether a newer producer made the job; the members that this version knows may be enough to show it. */
export function isTooNew(raw: unknown): raw is z.infer<typeof JobVersion> {
  const { data } = JobVersion.safeParse(raw);
  return data !== undefined && data.schemaVersion > JOB_SCHEMA_VERSION;
}

/** @throws {WavepoolError} JOB_TOO_NEW */
export function assertKnownVersion(raw: unknown): void {
  if (!isTooNew(raw)) return;
  const detail = `its schema version is ${raw.schemaVersion}, the newest one known here is ${JOB_SCHEMA_VERSION}`;
  throw new WavepoolError('JOB_TOO_NEW', `${detail}; upgrade this program`);
}
