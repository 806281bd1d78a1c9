/** Says what went wrong and what to do about it. */
import type { ErrorCode } from '../../core/errors.ts';
import { WavepoolError } from '../../core/errors.ts';
import type { CliContext } from '../context.ts';
import { printLine } from '../context.ts';

/** What a person at the terminal can do. Codes without a line explain themselves. */
const WAYS_OUT: Partial<Record<ErrorCode, string>> = {
  ADDON_MISSING:
    '`wavepool doctor --build` compiles it; in a checkout `npm run quickstart` does all set-up',
  CPU_UNSUPPORTED: 'use a machine with an x86-64-v3 processor (2013 or newer)',
  CAPACITY_UNVALIDATED:
    'use --slots auto, or --unvalidated-slots N to try a count at your own risk',
  FFMPEG_MISSING: 'install ffmpeg; `wavepool doctor` shows the command',
  INSUFFICIENT_MEMORY: 'use fewer --slots, --workers or a smaller --batch',
  MODEL_DOWNLOAD_FAILED:
    'the same command goes on where it stopped; a file fetched elsewhere goes in with `wavepool models import FILE`',
  MODEL_FILE_INVALID:
    'a model that is installed is repaired by `wavepool models remove ID` and `wavepool models pull ID`',
  MODEL_UNKNOWN: '`wavepool models list` shows the models there are',
  NO_WORKER: '`wavepool status` shows the workers there are; start one with `wavepool worker`',
  OUTPUT_BUSY: 'wait for the other run to end, or choose another --out',
  REDIS_UNAVAILABLE: 'check that the server of --redis runs and can be reached',
  STORAGE_UNSUITABLE: 'docs/operations.md says under "Shared storage" what a bucket must do',
  STORAGE_FULL:
    'make room or check the permissions, then run the same command: it goes on where it was',
};

export function reportFailure(context: CliContext, error: unknown): void {
  if (!(error instanceof WavepoolError)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    printLine(context.stderr, `wavepool: unexpected error: ${text}`);
    return;
  }
  printLine(context.stderr, `wavepool: ${error.message} [${error.code}]`);
  const wayOut = WAYS_OUT[error.code];
  if (wayOut !== undefined) printLine(context.stderr, `  ${wayOut}`);
}
