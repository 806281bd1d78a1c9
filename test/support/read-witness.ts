/**
 * Tells whether a file was read, by the time of its last reading. File systems that do not keep it (`noatime`) are told
 * apart by reading a file on purpose.
 */
import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';

const NEVER = new Date(0);

export class ReadWitness {
  readonly path: string;

  /** @param path an existing file, whose time of change is not far in the past */
  constructor(path: string) {
    this.path = path;
    utimesSync(path, NEVER, new Date());
  }

  get wasRead(): boolean {
    return statSync(this.path).atimeMs !== NEVER.getTime();
  }
}

/** Whether the file system of this folder keeps the times of readings. */
export async function keepsReadTimes(folder: string): Promise<boolean> {
  const path = `${folder}/read-time-probe`;
  writeFileSync(path, 'probe');
  const witness = new ReadWitness(path);
  readFileSync(path);
  const { wasRead } = witness;
  await rm(path);
  return wasRead;
}
