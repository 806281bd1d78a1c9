/** Recognizes the segments of one part of a split job, just as the worker of the job would have done. */
import { setMaxListeners } from 'node:events';
import { WavepoolError } from '../../core/errors.ts';
import type { PartData, PartResult, PartSegment } from '../../core/job/part.ts';
import type { TaskResult } from '../../runtime/engine.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { toStored } from '../journal/journal.ts';
import type { PartInput, PartInputs } from './part-inputs.ts';

export interface PartAttempt {
  readonly partId: string;
  readonly part: PartData;
  readonly priority: number;
  /** Whether its segments run in batches of their own, because a worker may have died of them. */
  readonly alone: boolean;
  readonly signal: AbortSignal;
}

/** The age of parts in the batchers. They belong to jobs that have begun, so they count as older than new jobs. */
const SEQUENCE = 0;

export class PartProcessor {
  readonly #runtime: Runtime;
  readonly #inputs: PartInputs;

  constructor(runtime: Runtime, inputs: PartInputs) {
    this.#runtime = runtime;
    this.#inputs = inputs;
  }

  /** @throws {WavepoolError} why the part failed */
  async process(attempt: PartAttempt): Promise<PartResult> {
    const { part, signal } = attempt;
    const recognizer = this.#runtime.entry(part.model);
    await recognizer.prepare({ signal, busyTimeoutMs: part.busyTimeoutMs });
    const input = await this.#inputs.take(part, signal);
    try {
      const results = await this.#recognize(attempt, input, recognizer);
      this.#inputs.release(input, part.segments.at(-1)?.startSample ?? 0);
      return { build: this.#runtime.engine.build.identity, results: results.map(toStored) };
    } catch (error) {
      await this.#inputs.discard(input);
      throw error;
    }
  }

  async #recognize(
    attempt: PartAttempt,
    input: PartInput,
    recognizer: ModelEntry,
  ): Promise<TaskResult[]> {
    const failing = new AbortController();
    const signal = AbortSignal.any([attempt.signal, failing.signal]);
    // Each segment listens to it. Node takes more than ten listeners for a leak.
    setMaxListeners(0, signal);
    const recognitions: Promise<TaskResult>[] = [];
    const watch = (recognition: Promise<TaskResult>): void => {
      recognition.catch((error: unknown) => failing.abort(error));
      recognitions.push(recognition);
    };
    try {
      for (const segment of attempt.part.segments) {
        await decode(input, segment, signal);
        watch(submit(attempt, segment, { input, recognizer, signal }));
      }
      return await Promise.all(recognitions);
    } catch (error) {
      failing.abort(error);
      throw error;
    } finally {
      // Native code may still read the samples.
      await Promise.allSettled(recognitions);
    }
  }
}

async function decode(
  { channels, input }: PartInput,
  { endSample, channel }: PartSegment,
  signal: AbortSignal,
): Promise<void> {
  const reader = channels.all[channel]?.reader;
  if (reader === undefined) throw new WavepoolError('INPUT_CHANGED', input.name);
  await reader.decodeUntil(endSample, signal);
  if (reader.audio.endSample < endSample) throw new WavepoolError('INPUT_CHANGED', input.name);
}

function submit(
  { partId, part, priority, alone }: PartAttempt,
  { startSample, endSample, channel, options }: PartSegment,
  { input, recognizer, signal }: { input: PartInput; recognizer: ModelEntry; signal: AbortSignal },
): Promise<TaskResult> {
  const audio = input.channels.all[channel]?.reader.audio;
  if (audio === undefined) throw new RangeError(`no channel ${channel}`);
  return recognizer.submit(
    {
      jobId: partId,
      jobSequence: SEQUENCE,
      priority,
      alone,
      key: 'asr',
      task: { audio, startSample, endSample, options },
      jobRemainingSeconds: ((part.segments.at(-1)?.endSample ?? 0) - startSample) / SAMPLE_RATE,
    },
    { signal, busyTimeoutMs: part.busyTimeoutMs },
  );
}
