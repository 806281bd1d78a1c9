/** A worker that can be controlled and is seen, but has no models: what it does with a command is the test's. */

import { createLogger } from '../../src/core/logger.ts';
import type { ControlCommand, ControlResult } from '../../src/core/worker/control.ts';
import type { WorkerPresence } from '../../src/core/worker/status.ts';
import { PresencePublisher } from '../../src/queue/fleet/presence.ts';
import type { RedisAddress } from '../../src/queue/redis/connection.ts';
import { ControlListener } from '../../src/worker/models/control.ts';
import { presenceOf } from './presence.ts';

export interface ControlledWorkerOptions {
  readonly address: RedisAddress;
  readonly presence?: Partial<WorkerPresence>;
  readonly run: (command: ControlCommand, signal: AbortSignal) => Promise<ControlResult>;
  /** @defaultValue that of workers */
  readonly heartbeatMs?: number;
}

export interface ControlledWorker extends AsyncDisposable {
  readonly presence: WorkerPresence;
}

export async function startControlledWorker(
  options: ControlledWorkerOptions,
): Promise<ControlledWorker> {
  const { address, run, heartbeatMs } = options;
  const presence = presenceOf(options.presence);
  const listener = await ControlListener.open({
    address,
    workerId: presence.id,
    run,
    logger: createLogger('silent', 'test'),
  });
  const publisher = new PresencePublisher({
    address,
    snapshot: () => presence,
    ...(heartbeatMs === undefined ? {} : { heartbeatMs }),
  });
  await publisher.start();
  return {
    presence,
    [Symbol.asyncDispose]: async () => {
      await publisher.close();
      await listener.close();
    },
  };
}

/** What a worker answers that has loaded a model. */
export function loadedResult(id: string, generation = 1): ControlResult {
  return {
    models: [{ id, state: 'ready', loaded: true, reconfigured: false, generation }],
    notFound: [],
  };
}
