/**
 * Journals keep what unfinished jobs have recognized, as lines that are only appended. The next attempt begins with them.
 *
 *   ROOT/SHA-256 of the job id/FINGERPRINT.jsonl        a line is: CRC-32 of the text, a space, the text
 *
 * A process that dies may leave half a line. Two attempts of one job may write at once, when the first has lost its lock and
 * does not know yet. So lines that do not match their checksum are left out. A journal only saves work: its reader decides
 * what it can use.
 */
import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { codeOf } from './durable-file.ts';

export interface Journal {
  /** The whole lines of earlier attempts, oldest first. */
  readonly lines: readonly string[];
  /**
   * Adds lines, which must hold no line feed. Only one call may be under way.
   * @param sync whether the lines must survive a power cut. They survive the death of the process in any case.
   */
  append(lines: readonly string[], sync: boolean): Promise<void>;
  /** Idempotent. */
  close(): Promise<void>;
}

export interface JournalStore {
  /** Whether an earlier attempt left a journal. The check is cheap. */
  holds(jobId: string): Promise<boolean>;
  /**
   * Opens the job's journal with this fingerprint. Journals with other fingerprints are useless now and are removed.
   * @param fingerprint a hexadecimal hash of everything that the lines depend on
   */
  open(jobId: string, fingerprint: string): Promise<Journal>;
  /** Removes the job's journals, if there are any. */
  remove(jobId: string): Promise<void>;
}

/** Journals that were not written to for this long are removed. */
export const RETENTION_MS = 7 * 86_400_000;
export const SWEEP_INTERVAL_MS = 3_600_000;
const SUFFIX = '.jsonl';

/** The names of a job's journals and result contain this hash; see `resultKey`. */
export function hashOfJobId(jobId: string): string {
  return createHash('sha256').update(jobId).digest('hex');
}

/** Journals in a local folder, or in a shared folder that every worker machine mounts. */
export class LocalJournals implements JournalStore {
  readonly #root: string;
  readonly #now: () => number;
  #sweptAt = Number.NEGATIVE_INFINITY;

  /** @param root a folder that need not exist */
  constructor(root: string, now: () => number = Date.now) {
    this.#root = root;
    this.#now = now;
  }

  async holds(jobId: string): Promise<boolean> {
    return (await namesIn(this.#folderOf(hashOfJobId(jobId)))).length > 0;
  }

  async open(jobId: string, fingerprint: string): Promise<Journal> {
    await this.#sweepNowAndThen();
    const folder = this.#folderOf(hashOfJobId(jobId));
    const name = `${fingerprint}${SUFFIX}`;
    for (const other of await namesIn(folder)) {
      if (other !== name) await rm(join(folder, other), { force: true });
    }
    return LocalJournal.open(folder, name);
  }

  async remove(jobId: string): Promise<void> {
    await this.removeByHash(hashOfJobId(jobId));
  }

  /** @param hash the result of `hashOfJobId` */
  async removeByHash(hash: string): Promise<void> {
    await rm(this.#folderOf(hash), { recursive: true, force: true });
  }

  /** Removes journals that were not written to for a week. */
  async sweep(): Promise<void> {
    this.#sweptAt = this.#now();
    for (const hash of await namesIn(this.#root)) {
      const folder = this.#folderOf(hash);
      const times = await Promise.all(
        (await namesIn(folder)).map((name) => writtenAt(folder, name)),
      );
      if (Math.max(await writtenAt(folder, ''), ...times) < this.#now() - RETENTION_MS)
        await this.removeByHash(hash);
    }
  }

  async #sweepNowAndThen(): Promise<void> {
    if (this.#now() - this.#sweptAt >= SWEEP_INTERVAL_MS) await this.sweep();
  }

  #folderOf(hash: string): string {
    return join(this.#root, hash);
  }
}

class LocalJournal implements Journal {
  readonly lines: readonly string[];
  readonly #folder: string;
  readonly #name: string;
  /** Whether the file ends with half a line. */
  #torn: boolean;
  #file: FileHandle | undefined;

  private constructor(folder: string, name: string, text: string) {
    this.#folder = folder;
    this.#name = name;
    this.#torn = text !== '' && !text.endsWith('\n');
    this.lines = parseStoredLines(text);
  }

  static async open(folder: string, name: string): Promise<LocalJournal> {
    const text = await readFile(join(folder, name), 'utf8').catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return '';
      throw error;
    });
    return new LocalJournal(folder, name, text);
  }

  async append(lines: readonly string[], sync: boolean): Promise<void> {
    if (this.#file === undefined) {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      this.#file = await open(join(this.#folder, this.#name), 'a', 0o600);
    }
    const text = formatStoredLines(lines);
    await this.#file.appendFile(this.#torn ? `\n${text}` : text, 'utf8');
    this.#torn = false;
    if (sync) await this.#file.datasync();
  }

  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }
}

/** Writes each line with its checksum. */
export function formatStoredLines(lines: readonly string[]): string {
  return lines.map((line) => `${checksum(line)} ${line}\n`).join('');
}

/** Returns the whole lines, without their checksums. */
export function parseStoredLines(text: string): string[] {
  return text.split('\n').flatMap(checked);
}

function checksum(line: string): string {
  return crc32(line).toString(16).padStart(8, '0');
}

/** Returns the line without its checksum, or nothing when it is not whole. */
function checked(stored: string): string[] {
  const line = stored.slice(9);
  return stored.length > 9 && stored.slice(0, 9) === `${checksum(line)} ` ? [line] : [];
}

/** The names in a folder; none when another process has just removed it. */
async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  });
}

async function writtenAt(folder: string, name: string): Promise<number> {
  const found = await stat(join(folder, name)).catch(() => undefined);
  return found?.mtimeMs ?? Number.NEGATIVE_INFINITY;
}
