import type { AudioQueue } from '../../src/queue/audio-queue.ts';
import type { JobEventMap } from '../../src/queue/events/job-events.ts';

/**
 * Resolves when listeners registered before this one have been told of the event. `waitFor` may know an end from the job's
 * state before its event has arrived; what listeners saw is complete only after the event itself.
 */
export function heard<Name extends Exclude<keyof JobEventMap, 'error'>>(
  queue: AudioQueue,
  name: Name,
  id: string,
): Promise<void> {
  return new Promise((resolve) => {
    queue.on(name, (event) => {
      if (event.id === id) resolve();
    });
  });
}
