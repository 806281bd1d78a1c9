/** `wavepool worker`: serves the queues of models until it is told to stop. */

import { once } from 'node:events';
import { type Command, Option } from 'commander';
import { createLogger } from '../../core/logger.ts';
import { describeAddress } from '../../queue/redis/connection.ts';
import { Housekeeping } from '../../worker/housekeeping/housekeeping.ts';
import { addCapacityOptions, warnUnvalidated } from '../capacity/capacity-options.ts';
import type { Fleet } from '../fleet/fleet.ts';
import { addLiveOption, addResidencyOptions } from '../fleet/residency-options.ts';
import { type ServingOptions, startFleet } from '../fleet/start-fleet.ts';
import {
  addObjectRootOption,
  addPlaceOptions,
  addStorageOption,
  collect,
  DEFAULT_MODEL,
  modelsOf,
  type PlaceOptions,
  placesOf,
} from '../options/options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { isInterruption, watchInterrupts } from '../terminal/interrupts.ts';

const DRAIN_MS = 600_000;

type WorkerOptions = PlaceOptions & ServingOptions;

const HELP = `
Takes jobs from the queues of its models until Ctrl-C or SIGTERM; then running jobs are finished, and a second signal gives them
back to the queue at once. While it runs, \`wavepool models load, unload and reconfigure\` change what it has in memory.

Exit codes: 0 stopped as asked, 2 usage, 3 this machine or its services, 130 stopped at once.`;

export function addWorkerCommand(program: Command, context: CliContext): void {
  const command = program
    .command('worker')
    .description('serve the queues of models')
    .addOption(
      new Option('--model <id>', 'what to serve; see `wavepool models list` (repeatable)')
        .argParser(collect)
        .default([], DEFAULT_MODEL),
    );
  addCapacityOptions(command);
  addResidencyOptions(command);
  addStorageOption(command);
  addObjectRootOption(command);
  addLiveOption(command);
  addPlaceOptions(command)
    .option('--quiet', 'print failures only')
    .addHelpText('after', HELP)
    .action(async (options: WorkerOptions) => {
      await serve(options, context);
    });
}

async function serve(options: WorkerOptions, context: CliContext): Promise<void> {
  const quiet = options.quiet === true;
  const say = (line: string): void => {
    if (!quiet) printLine(context.stderr, line);
  };
  let fleet: Fleet | undefined;
  using watch = watchInterrupts(context, {
    onFirst: () => say('finishing running jobs, press again to give them back now'),
    onSecond: async () => fleet?.kill(),
  });
  try {
    warnUnvalidated(options, context);
    const config = placesOf(context.config, options);
    fleet = await startFleet(options, { config, context, signal: watch.signal });
    const { address } = fleet;
    await using _housekeeping = await Housekeeping.start({
      address,
      webhooks: context.config.webhooks,
      logger: createLogger(quiet ? 'error' : context.config.logLevel, 'housekeeping'),
    });
    say(
      `serving ${modelsOf(options.model).join(', ')} through Redis at ${describeAddress(address)}`,
    );
    if (!watch.signal.aborted) await once(watch.signal, 'abort');
    await fleet.drain(DRAIN_MS);
  } catch (error) {
    if (!isInterruption(error, watch)) throw error;
  } finally {
    await fleet?.close();
  }
}
