/** Runs command lines in this process, with streams that are read back. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { runCommandLine } from '../../src/cli/program.ts';
import type { CliContext, ExitCode } from '../../src/cli/terminal/context.ts';
import { EXIT } from '../../src/cli/terminal/context.ts';
import { readConfig } from '../../src/core/config.ts';

export interface CliEnd {
  readonly code: ExitCode;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliSetup {
  /** What the doctor finds when it loads the addon. */
  readonly loadAddon?: () => Promise<string>;
  /** Ctrl-C as soon as something is on standard output. */
  readonly interruptAfterOutput?: boolean;
}

/** A command line over an empty home directory, which is removed afterwards. */
export async function runCli(argv: readonly string[], setup: CliSetup = {}): Promise<CliEnd> {
  const home = mkdtempSync(path.join(tmpdir(), 'wavepool-cli-'));
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const context: CliContext = {
    stdout,
    stderr,
    config: { ...readConfig({ HOME: home }), searchPath: readConfig().searchPath },
    environment: { HOME: home },
    onInterrupt: (handler) => {
      if (setup.interruptAfterOutput === true) stdout.once('readable', handler);
      return () => stdout.off('readable', handler);
    },
    exitNow: () => undefined,
    exitCode: EXIT.done,
  };
  try {
    const loadAddon = setup.loadAddon ?? (() => Promise.resolve('test-build'));
    const code = await runCommandLine(argv, context, { loadAddon });
    return { code, stdout: contentOf(stdout), stderr: contentOf(stderr) };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function contentOf(stream: PassThrough): string {
  const content: unknown = stream.read();
  return Buffer.isBuffer(content) ? content.toString('utf8') : '';
}
