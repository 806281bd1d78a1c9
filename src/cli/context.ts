/** What a command gets from the process: streams, configuration, interrupts. Tests give their own. */
import type { Writable } from 'node:stream';
import type { Config } from '../core/config.ts';
import type { ExitCode } from './exit-codes.ts';

export type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number };

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
