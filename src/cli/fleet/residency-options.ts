/** Options of commands with workers: when models leave memory, and when a worker counts as lost. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseBytes, parseDuration, parseWhole } from '../options/options.ts';

/** Far more than any batch takes. */
const HANG_LIMIT_MS = 600_000;
/** Long enough for a busy event loop, short enough that a lost machine's jobs are soon somebody else's. */
const LOCK_DURATION_MS = 60_000;
/** A lock is renewed twice in its time: a pause of the event loop must not lose it. */
const SHORTEST_LOCK_MS = 2_000;
const MAX_LIVE_STREAMS = 16;
/** Without evidence for the mode `streaming` it is one. */
const LIVE_STREAMS = 4;

/** When models leave memory, and what they may take of it. */
export interface ResidencyOptions {
  readonly lazy?: true;
  readonly maxLoadedModels: number;
  readonly idleUnload: number;
  readonly minFreeMemory: number;
  readonly busyTimeout: number;
  readonly hangLimit: number;
  readonly lockDuration: number;
  /** Of the commands whose workers servers reach. */
  readonly liveStreams?: number;
}

/** As the workers are told. */
export interface Residency {
  readonly lazy: boolean;
  readonly maxLoadedModels: number;
  readonly idleUnloadMs: number;
  readonly minFreeMemoryMb: number;
  readonly busyTimeoutMs: number;
  readonly hangLimitMs: number;
  readonly lockDurationMs: number;
  readonly stalledIntervalMs: number;
  readonly liveStreams: number;
}

export function addResidencyOptions(command: Command): Command {
  return command
    .option('--lazy', 'load a model with its first job instead of at the start')
    .addOption(
      new Option(
        '--max-loaded-models <n>',
        'more evict the one used least recently; 0 has no limit',
      )
        .argParser(parseWhole(0, 10_000))
        .default(0),
    )
    .addOption(
      new Option('--idle-unload <time>', 'a model without work for so long leaves memory; 0 never')
        .argParser(parseDuration)
        .default(0),
    )
    .addOption(
      new Option('--min-free-memory <size>', 'a load that would leave less is refused')
        .argParser(parseBytes)
        .default(0, 'not looked at'),
    )
    .addOption(
      new Option('--busy-timeout <time>', 'longest wait for a slot of a model; 0 has no end')
        .argParser(parseDuration)
        .default(0, 'that of the jobs'),
    )
    .addOption(
      new Option(
        '--hang-limit <time>',
        'a worker without progress for so long is replaced; 0 never',
      )
        .argParser(parseDuration)
        .default(HANG_LIMIT_MS, '10m'),
    )
    .addOption(
      new Option(
        '--lock-duration <time>',
        'after so long without a sign of life others get its jobs',
      )
        .argParser(parseLockDuration)
        .default(LOCK_DURATION_MS, '1m'),
    );
}

export function addLiveOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--live-streams <n>',
      'live streams that one worker takes at once, as far as evidence admits; 0 takes none',
    )
      .argParser(parseWhole(0, MAX_LIVE_STREAMS))
      .default(LIVE_STREAMS),
  );
}

function parseLockDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms >= SHORTEST_LOCK_MS) return ms;
  throw new InvalidArgumentError(`Use a time of at least ${SHORTEST_LOCK_MS / 1_000}s.`);
}

export function residencyOf(options: ResidencyOptions): Residency {
  return {
    lazy: options.lazy === true,
    maxLoadedModels: options.maxLoadedModels,
    idleUnloadMs: options.idleUnload,
    minFreeMemoryMb: Math.ceil(options.minFreeMemory / 2 ** 20),
    busyTimeoutMs: options.busyTimeout,
    hangLimitMs: options.hangLimit,
    ...locksOf(options.lockDuration),
    liveStreams: options.liveStreams ?? 0,
  };
}

export const DEFAULT_RESIDENCY: Residency = {
  lazy: false,
  maxLoadedModels: 0,
  idleUnloadMs: 0,
  minFreeMemoryMb: 0,
  busyTimeoutMs: 0,
  hangLimitMs: HANG_LIMIT_MS,
  ...locksOf(LOCK_DURATION_MS),
  liveStreams: 0,
};

/** Locks that have run out are looked for twice in the time that one lasts. */
function locksOf(lockDurationMs: number) {
  return { lockDurationMs, stalledIntervalMs: Math.ceil(lockDurationMs / 2) };
}
