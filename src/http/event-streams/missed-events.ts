/** Reading the events of one queue that the memory of the server does not hold any more. */
import type { StreamId } from '../../core/http/event-position.ts';
import type { ModelId } from '../../core/job/job.ts';
import { readEventPage } from '../../queue/events/event-history.ts';
import { queueNameOf } from '../../queue/redis/queue-names.ts';
import { BroadcastEvent } from '../events/broadcast-event.ts';
import type { Services } from '../services.ts';
import type { SseResponse } from './sse-response.ts';

export interface MissedEventsOptions {
  readonly services: Services;
  readonly client: SseResponse;
  readonly model: ModelId;
  readonly after: StreamId;
  readonly onEvent: (event: BroadcastEvent) => void;
}

const PAGE = 1_000;

/**
 * Reads from Redis until memory holds the rest. When Redis has lost some of the events, the client is disconnected; it comes
 * back and gets a snapshot.
 * @returns the position up to which events were read
 */
export async function readMissedEvents(options: MissedEventsOptions): Promise<StreamId> {
  const { services, client, model, onEvent } = options;
  let position = options.after;
  while (!client.ended.aborted) {
    const upTo = services.events.missingUpTo(model, position);
    if (upTo === undefined) break;
    const { events, complete } = await readEventPage(
      services.queues.connection,
      queueNameOf(model),
      { after: position, upTo, count: PAGE },
    );
    if (!complete) {
      client.disconnect();
      break;
    }
    for (const raw of events) {
      const event = BroadcastEvent.of(model, raw);
      if (event !== undefined) onEvent(event);
    }
    position = events.length < PAGE ? upTo : (events.at(-1)?.id ?? upTo);
    await client.drained();
  }
  return position;
}
