/** Every scenario with the size in which the chaos script runs it; the tests run them smaller. */
import { CANCEL_SCENARIOS } from './cancel-scenarios.ts';
import { CLOCK_SCENARIOS } from './clock-scenarios.ts';
import { CRASH_SCENARIOS } from './crash-scenarios.ts';
import { DISK_SCENARIOS } from './disk-scenarios.ts';
import { LONG_SCENARIOS } from './long-scenarios.ts';
import { REDIS_SCENARIOS } from './redis-scenarios.ts';
import type { Scenario } from './scenario.ts';
import { SHUTDOWN_SCENARIOS } from './shutdown-scenarios.ts';

export interface ScenarioSize {
  readonly jobs: number;
  readonly times: number;
}

const USUAL: ScenarioSize = { jobs: 60, times: 3 };

const WHOLE: Readonly<Record<string, ScenarioSize>> = {
  'worker-killed': { jobs: 1_000, times: 10 },
  'rolling-restart': { jobs: 200, times: 5 },
  'cancel-every-state': { jobs: 6, times: 5 },
  'cancel-at-random': { jobs: 4, times: 300 },
  'native-abort': { jobs: 30, times: 2 },
  'native-hang': { jobs: 12, times: 1 },
  // Six hours of audio.
  'killed-late': { jobs: 2_160, times: 1 },
  'long-beside-short': { jobs: 60, times: 1 },
  'short-beside-long': { jobs: 1, times: 10 },
  'urgent-behind-long': { jobs: 1, times: 10 },
  'wait-told': { jobs: 2, times: 1 },
  'redis-slow': { jobs: 20, times: 1 },
  'drain-deadline': { jobs: 12, times: 2 },
  'time-limits': { jobs: 12, times: 1 },
  'lock-lost': { jobs: 12, times: 1 },
};

export const ALL_SCENARIOS: readonly Scenario[] = [
  ...CRASH_SCENARIOS,
  ...CANCEL_SCENARIOS,
  ...CLOCK_SCENARIOS,
  ...REDIS_SCENARIOS,
  ...SHUTDOWN_SCENARIOS,
  ...DISK_SCENARIOS,
  ...LONG_SCENARIOS,
];

export function wholeSize({ name }: Scenario): ScenarioSize {
  return WHOLE[name] ?? USUAL;
}
