#!/usr/bin/env node
/** The `wavepool` program: the process's streams, environment and signals for the commands. */
import process from 'node:process';
import { processEnvironment, readConfig } from '../core/config.ts';
import { runCommandLine } from './program.ts';
import { type CliContext, EXIT, exitCodeOf, printLine } from './terminal/context.ts';

function onInterrupt(handler: () => void): () => void {
  process.on('SIGINT', handler);
  process.on('SIGTERM', handler);
  return () => {
    process.off('SIGINT', handler);
    process.off('SIGTERM', handler);
  };
}

async function main(): Promise<void> {
  const { stdout, stderr } = process;
  // `wavepool … | head` ends the reader first: there is nobody left to tell.
  stdout.on('error', (error) => {
    if ('code' in error && error.code === 'EPIPE') process.exit(EXIT.done);
    throw error;
  });
  try {
    const context: CliContext = {
      stdout,
      stderr,
      config: readConfig(),
      environment: processEnvironment(),
      onInterrupt,
      exitNow: (code) => process.exit(code),
      exitCode: EXIT.done,
    };
    process.exitCode = await runCommandLine(process.argv.slice(2), context, {
      loadAddon: async ({ addonPath }) => {
        const { NativeEngine } = await import('../engine/native-engine.ts');
        return new NativeEngine({ addon: addonPath }).build.identity;
      },
    });
  } catch (error) {
    printLine(stderr, `wavepool: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = exitCodeOf(error);
  }
}

await main();
