/** The inputs of a batch of jobs: from a JSON list, from JSON lines, or from a folder. Each is checked when its turn comes. */
import { createHash } from 'node:crypto';
import { relative } from 'node:path';
import { resolveRoots, scanInputs } from '../../bulk/scan.ts';
import { WavepoolError } from '../../core/errors.ts';
import { JobRequestInput } from '../../core/http/api.ts';
import { InvalidRequestError, parseRequestPart } from '../../core/http/problem.ts';
import type { JobInput } from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import type { CallContext } from '../auth/own-work.ts';
import type { Services } from '../services.ts';
import { resolveAllowedPath } from './allowed-path.ts';
import { resolveRequestInput } from './submit-job.ts';

export interface BatchInput {
  readonly key?: string;
  readonly input: JobInput;
}

/** Counts what a folder holds besides inputs. */
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

/** A file keeps its key when other files come into the folder. */
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

export interface JsonLine {
  /** Counts from 1. Empty lines are counted, and left out. */
  readonly number: number;
  readonly value: unknown;
}

const MAX_LINE_BYTES = 65_536;
const NEWLINE = 0x0a;

/**
 * Parses a body of JSON lines as it arrives. Holds one line at a time.
 * @throws {InvalidRequestError}
 */
export async function* readJsonLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<JsonLine> {
  let number = 0;
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of bytes) {
    let start = 0;
    const data = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    for (let end = data.indexOf(NEWLINE); end !== -1; end = data.indexOf(NEWLINE, start)) {
      number += 1;
      yield* parseLine(data.subarray(start, end), number);
      start = end + 1;
    }
    rest = data.subarray(start);
    assertLength(rest, number + 1);
  }
  yield* parseLine(rest, number + 1);
}

function* parseLine(line: Buffer, number: number): Generator<JsonLine> {
  assertLength(line, number);
  const text = line.toString('utf8').trim();
  if (text === '') return;
  try {
    yield { number, value: JSON.parse(text) };
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new InvalidRequestError('body', [{ path: `line ${number}`, message: 'it is no JSON' }], {
      cause,
    });
  }
}

function assertLength(line: Buffer, number: number): void {
  if (line.length <= MAX_LINE_BYTES) return;
  const message = `it has more than ${MAX_LINE_BYTES} bytes`;
  throw new InvalidRequestError('body', [{ path: `line ${number}`, message }]);
}
