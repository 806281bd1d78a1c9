/** Starts that have ended, one file each, so that a validation that was interrupted goes on where it was. */
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import type { StartEnd } from '../../core/evidence/validation-ipc.ts';
import { parseStoredStart } from '../../core/evidence/validation-ipc.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { writeWhole } from '../evidence/evidence-store.ts';

export class StoredStarts {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Tells how the start ended; undefined when it must be run. That is so if it was never run, if another start has its place, and if memory was too short. */
  async read(slots: number, start: number, key: string): Promise<StartEnd | undefined> {
    const text = await readFile(this.#file(slots, start), 'utf8').catch(() => undefined);
    if (text === undefined) return undefined;
    const stored = parseStoredStart(parseJson(text));
    if (stored === undefined || stored.key !== key) return undefined;
    const { end } = stored;
    return end.kind === 'broken' && end.status === 'BLOCKED' ? undefined : end;
  }

  write(slots: number, start: number, key: string, end: StartEnd): Promise<void> {
    return writeWhole(this.#file(slots, start), { key, end });
  }

  async clear(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  #file(slots: number, start: number): string {
    return path.join(this.#folder, `${slots}-${start + 1}.json`);
  }
}
