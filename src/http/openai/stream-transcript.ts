/** A transcript as it arrives, in the way that OpenAI's clients read it. */
import { toWavepoolError } from '../../core/errors.ts';
import type { OpenAiStreamEvent } from '../../core/http/openai.ts';
import { openAiErrorOf } from '../../core/http/problem.ts';
import type { FoundJob } from '../../queue/queue-registry.ts';
import type { SseResponse } from '../event-streams/sse-response.ts';
import type { Services } from '../services.ts';
import { SegmentOrder } from './segment-order.ts';
import { awaitTranscript } from './transcribe.ts';

/** Resolves when the stream has ended; failures are told in it. */
export async function streamTranscript(
  job: FoundJob,
  services: Services,
  { client, signal }: { client: SseResponse; signal: AbortSignal },
): Promise<void> {
  const order = new SegmentOrder();
  const tell = (event: OpenAiStreamEvent): void => client.write(data(event));
  const tellDelta = (delta: string): void => {
    if (delta !== '') tell({ type: 'transcript.text.delta', delta });
  };
  client.open();
  const stopBeating = client.startHeartbeats(services.every);
  const stopWatching = services.segments.watch(
    { queue: job.queue.name, jobId: job.view.id },
    (segments) => {
      for (const { segment } of segments) tellDelta(order.add(segment));
    },
  );
  try {
    const { text } = await awaitTranscript(job, services, signal);
    tellDelta(order.rest(text));
    tell({ type: 'transcript.text.done', text });
    client.write('data: [DONE]\n\n');
  } catch (error) {
    client.write(data({ error: openAiErrorOf(toWavepoolError(error)) }));
  } finally {
    stopBeating();
    stopWatching();
    client.end();
  }
}

function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
