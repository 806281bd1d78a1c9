/** Streams a transcript as it is recognized, in the events that OpenAI's clients read. */
import { toWavepoolError } from '../../core/errors.ts';
import type { OpenAiStreamEvent } from '../../core/http/openai.ts';
import { openAiErrorOf } from '../../core/http/problem.ts';
import type { PartialSegment } from '../../core/job/job.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { SseResponse } from '../event-streams/sse-response.ts';
import type { Services } from '../services.ts';
import { awaitTranscript } from './transcribe.ts';

/** Resolves when the stream has ended. A failure is sent as its last event. */
export async function streamTranscript(
  job: FoundJob,
  services: Services,
  { client, signal }: { client: SseResponse; signal: AbortSignal },
): Promise<void> {
  const order = new SegmentOrder();
  const send = (event: OpenAiStreamEvent): void => client.write(data(event));
  const sendDelta = (delta: string): void => {
    if (delta !== '') send({ type: 'transcript.text.delta', delta });
  };
  client.open();
  const stopHeartbeats = client.startHeartbeats(services.every);
  const stopWatching = services.segments.watch(
    { queue: job.queue.name, jobId: job.view.id },
    (segments) => {
      for (const { segment } of segments) sendDelta(order.add(segment));
    },
  );
  try {
    const { text } = await awaitTranscript(job, services, signal);
    sendDelta(order.rest(text));
    send({ type: 'transcript.text.done', text });
    client.write('data: [DONE]\n\n');
  } catch (error) {
    client.write(data({ error: openAiErrorOf(toWavepoolError(error)) }));
  } finally {
    stopHeartbeats();
    stopWatching();
    client.end();
  }
}

function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** Puts the segments of a job into the order of the audio. They arrive in the order in which they were recognized. */
class SegmentOrder {
  readonly #early = new Map<number, string>();
  #next = 0;
  #text = '';

  /** The text that can be sent now that this segment is there; often empty. It continues the text that was sent before. */
  add({ index, text }: PartialSegment): string {
    // After a crash or a retry a segment may come again. What was sent stays.
    if (index >= this.#next) this.#early.set(index, text);
    const before = this.#text.length;
    for (let ready = this.#take(); ready !== undefined; ready = this.#take()) {
      if (ready !== '') this.#text += this.#text === '' ? ready : ` ${ready}`;
    }
    return this.#text.slice(before);
  }

  /** The end of the text that was not sent yet; empty when the text that was sent differs from the result. */
  rest(whole: string): string {
    return whole.startsWith(this.#text) ? whole.slice(this.#text.length) : '';
  }

  #take(): string | undefined {
    const text = this.#early.get(this.#next);
    if (text === undefined) return undefined;
    this.#early.delete(this.#next);
    this.#next += 1;
    return text;
  }
}
