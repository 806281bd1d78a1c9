/**
 * A supervisor in a process of its own, so that it can be killed together with its workers, or replaced. The first argument is
 * a file with what it is to start. Says over IPC when its workers take jobs. SIGTERM drains, and ends it with 0; SIGINT ends it
 * at once, with 130.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { z } from 'zod';
import { createLogger } from '../../../src/core/logger.ts';
import { WorkerSettings } from '../../../src/core/worker/worker-settings.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';
import { Supervisor } from '../../../src/worker/supervisor/supervisor.ts';

export const SupervisorTask = z.strictObject({
  settings: WorkerSettings,
  workers: z.int().min(1),
  workerScript: z.string(),
  /** What running jobs get after a SIGTERM. */
  drainMs: z.int().min(0),
});
export type SupervisorTask = z.infer<typeof SupervisorTask>;

/** What it says when its workers take jobs. */
export interface SupervisorReady {
  readonly pids: readonly number[];
}

const [, , file = ''] = process.argv;
const { settings, workers, workerScript, drainMs } = SupervisorTask.parse(
  JSON.parse(readFileSync(file, 'utf8')),
);
const queue = await AudioQueue.open({
  address: settings.redis,
  model: settings.models[0]?.id ?? '',
  whenDisconnected: 'wait',
});
const supervisor = new Supervisor({
  settings,
  workers,
  workerScript,
  logger: createLogger('silent', 'chaos'),
  handBack: async (held) => {
    for (const { jobs, workerIds } of held.values()) await queue.handBack(jobs, workerIds);
  },
});

process.once('SIGTERM', () => {
  void (async () => {
    await supervisor.close({ deadlineMs: drainMs });
    await queue.close();
    process.exit(0);
  })();
});
process.once('SIGINT', () => {
  void (async () => {
    await supervisor.kill();
    await queue.close();
    process.exit(130);
  })();
});
await supervisor.start();
const ready: SupervisorReady = { pids: supervisor.pids };
process.send?.(ready);
