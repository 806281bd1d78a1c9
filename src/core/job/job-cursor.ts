/** Where a listing of jobs goes on. Opaque to clients: they give back what they got. */
import { z } from 'zod';
import { WavepoolError } from '../errors.ts';
import { ModelId } from './job.ts';

/** The places of a queue that hold jobs, in the order in which a job passes them. */
export const JobPlace = z.enum([
  'delayed',
  'waiting-children',
  'prioritized',
  'wait',
  'paused',
  'active',
  'failed',
  'completed',
]);
export type JobPlace = z.infer<typeof JobPlace>;

export const JobCursor = z.strictObject({
  model: ModelId,
  place: JobPlace,
  /** The last job that was looked at; without it the place begins. */
  after: z.strictObject({ id: z.string(), score: z.string() }).optional(),
});
export type JobCursor = z.infer<typeof JobCursor>;

export function encodeCursor(cursor: JobCursor): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

/** @throws {WavepoolError} INVALID_REQUEST */
export function decodeCursor(text: string): JobCursor {
  try {
    return JobCursor.parse(JSON.parse(Buffer.from(text, 'base64url').toString('utf8')));
  } catch (cause) {
    throw new WavepoolError('INVALID_REQUEST', 'cursor: it is none of this server', { cause });
  }
}
