/** What is known about the private Redis of a data directory: who runs it and where it listens. */
import { z } from 'zod';
import { parseJson } from '../lenient-parse.ts';
import { ProcessIdentity } from './process-identity.ts';

export const ServerRecord = z.strictObject({
  server: ProcessIdentity,
  socket: z.string(),
  /** Device and inode of the folder: they follow a folder that is moved, and tell a copy from it. */
  folder: z.string(),
});
export type ServerRecord = z.infer<typeof ServerRecord>;

/** The record, or nothing when the text is damaged. */
export function parseServerRecord(text: string): ServerRecord | undefined {
  return ServerRecord.safeParse(parseJson(text)).data;
}
