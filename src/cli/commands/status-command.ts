/** `wavepool status`: queues, workers, models, slots and what failed lately, once or live. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { Option } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import { readOverview } from '../../queue/fleet/overview.ts';
import { closeConnection, connect, openConnection } from '../../queue/redis/connection.ts';
import type { CliContext } from '../context.ts';
import { printLine } from '../context.ts';
import { watchInterrupts } from '../interrupts.ts';
import type { PlaceOptions } from '../options/options.ts';
import { addQueueOptions, parseCount, placesOf } from '../options/options.ts';
import { describeStatus } from '../output/status-table.ts';
import { RedisAccess } from '../redis-access.ts';

const REFRESH_MS = 2_000;
const CLEAR_SCREEN = '\u001b[2J\u001b[H';

interface StatusOptions extends PlaceOptions {
  readonly json?: true;
  readonly watch?: true;
  readonly failures: number;
}

const HELP = `
batch is the average of those that have ended, of the most that fit. × real time is audio over the time in which a slot has
worked: what one slot achieves.

Exit codes: 0 shown, 2 usage, 3 this machine or its services.`;

export function addStatusCommand(program: Command, context: CliContext): void {
  const command = program
    .command('status')
    .description('show queues, workers, models, slots and recent failures')
    .option('--watch', 'show it again and again, until Ctrl-C')
    .addOption(
      new Option('--failures <n>', 'how many recent failures')
        .argParser(parseCount(100))
        .default(5),
    )
    .option('--json', 'print one JSON object on stdout, with --watch one per line');
  addQueueOptions(command)
    .addHelpText('after', HELP)
    .action(async (options: StatusOptions) => {
      await status(options, context);
    });
}

async function status(options: StatusOptions, context: CliContext): Promise<void> {
  await using redis = await RedisAccess.open(placesOf(context.config, options));
  const connection = openConnection(redis.address, { role: 'fail-fast', name: 'status' });
  await connect(connection, redis.address);
  const show = async (): Promise<void> => {
    const overview = await readOverview(connection, options.failures);
    const now = Date.now();
    if (options.json === true) printLine(context.stdout, JSON.stringify({ at: now, ...overview }));
    else context.stdout.write(describeStatus(overview, now, process.cwd()));
  };
  try {
    if (options.watch === true) await showAgainAndAgain(show, options, context);
    else await show();
  } finally {
    closeConnection(connection);
  }
}

async function showAgainAndAgain(
  show: () => Promise<void>,
  options: StatusOptions,
  context: CliContext,
): Promise<void> {
  using watch = watchInterrupts(context, { onFirst: () => undefined });
  const clears = context.stdout.isTTY === true && options.json !== true;
  while (!watch.signal.aborted) {
    if (clears) context.stdout.write(CLEAR_SCREEN);
    try {
      await show();
    } catch (error) {
      const isAway = error instanceof WavepoolError && error.code === 'REDIS_UNAVAILABLE';
      if (!isAway) throw error;
      printLine(context.stderr, `${error.message}; trying again`);
    }
    await delay(REFRESH_MS, undefined, { signal: watch.signal }).catch(() => undefined);
  }
}
