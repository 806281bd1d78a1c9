/** How many workers, slots and threads, as a command is told it. */
import { type Command, Option } from 'commander';
import { parseCount } from '../options/options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';

export const MAX_SLOTS = 16;
export const MAX_BATCH = 64;
export const MAX_THREADS = 64;
const MAX_WORKERS = 64;
/** One thread per slot: threads of one graph wait for each other actively, and collapse when a core is taken away. */
const DEFAULT_THREADS = 1;

export type CountOrAuto = number | 'auto';

export interface CapacityOptions {
  readonly slots: CountOrAuto;
  readonly unvalidatedSlots?: number;
  readonly batch: CountOrAuto;
  readonly threads: number;
  readonly workers: CountOrAuto;
  /** Set by `addCapacityOptions` from how the command was typed. */
  readonly tuning?: TuningWish;
}

/** Whether what is `auto` is to be measured. */
export interface TuningWish {
  /** `auto` was typed, not left out. */
  readonly wanted: boolean;
  /** Even if it is known. */
  readonly again: boolean;
  readonly threadsTyped: boolean;
}

export function addCapacityOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--slots <n|auto>', 'sessions of the model in one worker')
        .argParser(parseCountOrAuto(MAX_SLOTS))
        .default('auto'),
    )
    .addOption(
      new Option('--unvalidated-slots <n>', 'like --slots, without evidence that it is safe here')
        .argParser(parseCount(MAX_SLOTS))
        .conflicts('slots'),
    )
    .addOption(
      new Option('--batch <n|auto>', 'segments computed together by one slot')
        .argParser(parseCountOrAuto(MAX_BATCH))
        .default('auto'),
    )
    .addOption(
      new Option('--threads <n>', 'compute threads of one slot')
        .argParser(parseCount(MAX_THREADS))
        .default(DEFAULT_THREADS),
    )
    .addOption(
      new Option('--workers <n|auto>', 'worker processes')
        .argParser(parseCountOrAuto(MAX_WORKERS))
        .default('auto'),
    )
    .option('--retune', 'measure again what --slots auto and --batch auto choose')
    .hook('preAction', (ran) => {
      ran.setOptionValue('tuning', tuningWish(ran));
    });
}

/** `--slots auto` and `--batch auto` measure when they are typed; a command without them never takes that time. */
function tuningWish(command: Command): TuningWish {
  const isTyped = (name: string) => command.getOptionValueSource(name) === 'cli';
  const isAuto = (name: string) => isTyped(name) && command.getOptionValue(name) === 'auto';
  const again = command.getOptionValue('retune') === true;
  return {
    wanted: again || isAuto('slots') || isAuto('batch'),
    again,
    threadsTyped: isTyped('threads'),
  };
}

function parseCountOrAuto(most: number): (text: string) => CountOrAuto {
  const parse = parseCount(most);
  return (text) => (text === 'auto' ? 'auto' : parse(text));
}

/** A count without evidence is a choice of whoever starts the command. */
export function warnUnvalidated(options: CapacityOptions, context: CliContext): void {
  if (options.unvalidatedSlots === undefined) return;
  printLine(
    context.stderr,
    `warning: up to ${options.unvalidatedSlots} slots are taken without evidence that they are safe here`,
  );
}
