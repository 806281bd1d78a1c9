/** The disk of the results takes no more, for some seconds, and then does again. */

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SMALL_DISKS, SmallDisk } from '../support/small-disk.ts';
import { ensure, type Scenario, type ScenarioContext, type ScenarioOutcome } from './scenario.ts';
import { FaultBench } from './support/fault-bench.ts';

const DISK_BYTES = 4 * 2 ** 20;
/** The fault is a duration. Jobs are tried again two, then four seconds after they failed, more or less. */
const TROUBLE_MS = 2_500;

async function troubleDisk(
  context: ScenarioContext,
  begin: (disk: SmallDisk) => Promise<void>,
  end: (disk: SmallDisk) => Promise<void>,
): Promise<ScenarioOutcome> {
  ensure(SMALL_DISKS, 'no small disk can be mounted here: needs root on Linux');
  await using disk = await SmallDisk.mount(DISK_BYTES);
  await using bench = await FaultBench.open(context, {
    settings: { resultsDir: join(disk.path, 'results') },
  });
  let recoveryMs = 0;
  for (let time = 0; time < context.times; time += 1) {
    await bench.add(Math.ceil(context.jobs / 2 / context.times));
    await bench.allEnded();
    await begin(disk);
    await bench.add(Math.ceil(context.jobs / 2 / context.times));
    await delay(TROUBLE_MS);
    await end(disk);
    const endedAt = performance.now();
    await bench.allEnded();
    recoveryMs = Math.max(recoveryMs, bench.recoveryAfter(endedAt) ?? 0);
  }
  const outcome = await bench.outcome(recoveryMs, context.times);
  return outcome;
}

export const diskFull: Scenario = {
  name: 'disk-full',
  fault: `the disk of the results is full for ${TROUBLE_MS / 1_000} s`,
  run: (context) =>
    troubleDisk(
      context,
      (disk) => disk.fill(),
      (disk) => disk.free(),
    ),
};

export const diskReadOnly: Scenario = {
  name: 'disk-read-only',
  fault: `the disk of the results is read-only for ${TROUBLE_MS / 1_000} s`,
  run: (context) =>
    troubleDisk(
      context,
      (disk) => disk.setReadOnly(true),
      (disk) => disk.setReadOnly(false),
    ),
};

export const DISK_SCENARIOS = SMALL_DISKS ? [diskFull, diskReadOnly] : [];
