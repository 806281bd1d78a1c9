/**
 * What a command gets from its process: streams, configuration and interrupts; and the exit code that it leaves. Tests give
 * their own.
 */
import type { Writable } from 'node:stream';
import type { Config } from '../../core/config.ts';
import { type ErrorCode, WavepoolError } from '../../core/errors.ts';

export type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/** How a command ends, for scripts. */
export const EXIT = {
  done: 0,
  someFailed: 1,
  usage: 2,
  environment: 3,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export interface CliContext {
  /** Results. */
  readonly stdout: Output;
  /** Everything else. */
  readonly stderr: Output;
  readonly config: Config;
  /** For npm, whose settings decide where models are downloaded from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Calls `handler` at each Ctrl-C or request to end; returns what removes it. */
  onInterrupt(handler: () => void): () => void;
  /** Ends the process without waiting for anything. */
  exitNow(code: ExitCode): void;
  /** Set by the command that ran. */
  exitCode: ExitCode;
}

export function printLine(output: Output, line: string): void {
  output.write(`${line}\n`);
}

/** These errors are in what was typed; all others are of the machine or of the services that it needs. */
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
