/** How a command ends, for scripts. */
import type { ErrorCode } from '../core/errors.ts';
import { WavepoolError } from '../core/errors.ts';

export const EXIT = {
  done: 0,
  someFailed: 1,
  usage: 2,
  environment: 3,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Errors in what was typed; all others are of the machine or the services that it needs. */
const USAGE_ERRORS: ReadonlySet<ErrorCode> = new Set([
  'INVALID_REQUEST',
  'INPUT_NOT_FOUND',
  'JOB_NOT_FOUND',
  'MODEL_UNKNOWN',
  'TASK_UNSUPPORTED',
  'OPTION_UNSUPPORTED',
]);

/** The exit code for a command that ended with this error. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof WavepoolError && USAGE_ERRORS.has(error.code)) return EXIT.usage;
  return EXIT.environment;
}
