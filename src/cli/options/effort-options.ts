/** Whose a job is, before which others it goes, and how hard it is tried. */
import { type Command, Option } from 'commander';
import type { NewJob } from '../../core/job/job.ts';
import { parseCount, parseDuration, parseWhole } from './options.ts';

const MAX_PRIORITY = 2_097_151;

export interface EffortOptions {
  readonly priority?: number;
  readonly attempts?: number;
  readonly timeout?: number;
  readonly tenant?: string;
}

export function addEffortOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--priority <n>',
        'lower runs first, among the jobs of its tenant (default: 1000)',
      ).argParser(parseWhole(0, MAX_PRIORITY)),
    )
    .addOption(
      new Option('--attempts <n>', 'tries of failures that may pass (default: 3)').argParser(
        parseCount(100),
      ),
    )
    .addOption(
      new Option('--timeout <time>', 'longest time of running (default: 6h)').argParser(
        parseDuration,
      ),
    )
    .option('--tenant <name>', 'on whose behalf');
}

export function effortOf(
  options: EffortOptions,
): Pick<NewJob, 'priority' | 'attempts' | 'tenant' | 'clocks'> {
  const { priority, attempts, tenant, timeout } = options;
  return {
    ...(priority === undefined ? {} : { priority }),
    ...(attempts === undefined ? {} : { attempts }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(timeout === undefined ? {} : { clocks: { timeoutMs: timeout } }),
  };
}
