/** The inputs of a batch as they come: out of a JSON list, out of lines, or out of a folder. Each is checked in its turn. */
import { createHash } from 'node:crypto';
import { relative } from 'node:path';
import { resolveRoots, scanInputs } from '../../bulk/scan.ts';
import { WavepoolError } from '../../core/errors.ts';
import { JobRequestInput } from '../../core/http/api.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import type { JobInput } from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import type { CallContext } from '../auth/own-work.ts';
import type { Services } from '../services.ts';
import { resolveAllowedPath } from './allowed-path.ts';
import type { JsonLine } from './ndjson-lines.ts';
import { resolveRequestInput } from './submit-job.ts';

export interface BatchInput {
  readonly key?: string;
  readonly input: JobInput;
}

/** What a folder held besides inputs. */
export interface ScanTally {
  skipped: number;
  unreadable: number;
}

/** @throws {WavepoolError} see `resolveRequestInput` */
export async function* listedInputs(
  inputs: readonly unknown[],
  context: CallContext,
): AsyncGenerator<BatchInput> {
  for (const [at, raw] of inputs.entries()) {
    yield { input: await checkedInput(raw, `inputs[${at}]`, context) };
  }
}

/** @throws {WavepoolError} see `resolveRequestInput` */
export async function* lineInputs(
  lines: AsyncIterable<JsonLine>,
  context: CallContext,
): AsyncGenerator<BatchInput> {
  for await (const { number, value } of lines) {
    yield { input: await checkedInput(value, `line ${number}`, context) };
  }
}

async function checkedInput(raw: unknown, place: string, context: CallContext): Promise<JobInput> {
  return resolveRequestInput(parseRequestPart(JobRequestInput, raw, place), context);
}

export interface FolderScan {
  /** A real path inside the input roots. */
  readonly directory: string;
  readonly tally: ScanTally;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/** All audio and video files below a folder. Links that lead out of the input roots are not followed. */
export async function* folderInputs(
  { directory, tally, signal, logger }: FolderScan,
  { settings }: Services,
): AsyncGenerator<BatchInput> {
  const roots = await resolveRoots([directory]);
  for await (const entry of scanInputs(roots, { out: directory, signal })) {
    switch (entry.kind) {
      case 'skipped':
        tally.skipped += 1;
        break;
      case 'problem':
        tally.unreadable += 1;
        logger.warn({ path: entry.path, code: entry.code }, 'left out of the batch');
        break;
      case 'input': {
        const path = await allowedOrUndefined(entry.path, settings.inputRoots);
        if (path === undefined) {
          tally.unreadable += 1;
          logger.warn({ path: entry.path }, 'left out of the batch');
          break;
        }
        const key = fileKey(relative(directory, entry.path));
        yield { key, input: { kind: 'path', path } };
        break;
      }
      default:
        entry satisfies never;
    }
  }
}

/** The same file has the same key, whatever else has come into the folder. */
function fileKey(path: string): string {
  return `f${createHash('sha256').update(path).digest('hex').slice(0, 32)}`;
}

async function allowedOrUndefined(
  path: string,
  roots: readonly string[],
): Promise<string | undefined> {
  try {
    return await resolveAllowedPath(path, roots);
  } catch (error) {
    if (error instanceof WavepoolError) return undefined;
    throw error;
  }
}
