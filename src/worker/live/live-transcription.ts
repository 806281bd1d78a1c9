import { randomUUID } from 'node:crypto';
import { WavepoolError } from '../../core/errors.ts';
import {
  type LiveTranscribeSettingsInput,
  parseLiveTranscribeSettings,
} from '../../core/live/live.ts';
import { recognizerOptions } from '../../core/worker/model-abilities.ts';
import type { TaskOptions, TaskResult } from '../../runtime/engine.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import { findWords } from '../speech/find-words.ts';
import type { SpeechSegment } from '../speech/speech-segmenter.ts';
import {
  type LiveContext,
  type LiveSegment,
  LiveStream,
  type LiveStreamOptions,
  liveSegment,
  type SpeechSink,
} from './live-stream.ts';

/** The longest segment for recognizers that have no limit of their own. */
const LONGEST_SEGMENT_SECONDS = 30;

/** A stretch of speech with its text. */
export interface LiveTranscriptSegment extends LiveSegment {
  /** Empty where no words were recognized. */
  readonly text: string;
  /** Whether the token limit of the model cut the text off. */
  readonly truncated: boolean;
}

export interface LiveTranscriptionOptions extends LiveStreamOptions {
  /** A model in offline mode. The segments share its batches with those of jobs and of other streams. */
  readonly recognizer: ModelEntry;
  /** The options of a job. */
  readonly options?: LiveTranscribeSettingsInput | undefined;
  /** Lower runs first; jobs have 1000 unless they say otherwise. @defaultValue 0 */
  readonly priority?: number | undefined;
  /** Called when a segment has been recognized, in the order of the audio. What it throws ends the stream. */
  readonly onSegment: (segment: LiveTranscriptSegment) => void;
}

interface Pending {
  readonly startSample: number;
  readonly ended: Promise<void>;
}

/** Sends segments to the recognizer's batcher, and reports their texts in the order of the audio. */
class Recognition implements SpeechSink {
  readonly #options: LiveTranscriptionOptions;
  readonly #taskOptions: TaskOptions;
  readonly #context: LiveContext;
  readonly #jobId = `live-${randomUUID()}`;
  /** In the order of the audio. */
  readonly #pending: Pending[] = [];
  #count = 0;

  constructor(options: LiveTranscriptionOptions, taskOptions: TaskOptions, context: LiveContext) {
    this.#options = options;
    this.#taskOptions = taskOptions;
    this.#context = context;
  }

  get pending(): number {
    return this.#pending.length;
  }

  take(segment: SpeechSegment): void {
    const before = this.#pending.at(-1)?.ended;
    const index = this.#count;
    this.#count += 1;
    const ended = this.#tell(index, segment, before, this.#recognize(segment));
    this.#pending.push({ startSample: segment.startSample, ended });
  }

  firstNeededSample(keepFrom: number): number {
    return Math.min(keepFrom, this.#pending[0]?.startSample ?? keepFrom);
  }

  async oldestEnded(): Promise<void> {
    await this.#pending[0]?.ended;
  }

  async allEnded(): Promise<void> {
    await this.#pending.at(-1)?.ended;
  }

  async #recognize(segment: SpeechSegment): Promise<TaskResult> {
    const { result } = await findWords(this.#taskOptions, (options) =>
      this.#submit(segment, options),
    );
    return result;
  }

  #submit({ startSample, endSample }: SpeechSegment, options: TaskOptions): Promise<TaskResult> {
    const { recognizer, priority = 0, busyTimeoutMs } = this.#options;
    const { audio, signal } = this.#context;
    return recognizer.submit(
      {
        jobId: this.#jobId,
        // Somebody waits for the text, so no job counts as older.
        jobSequence: 0,
        priority,
        key: 'asr',
        jobRemainingSeconds: 0,
        task: { audio, startSample, endSample, options },
      },
      { signal, busyTimeoutMs },
    );
  }

  /** Never rejects: a failure ends the stream. */
  async #tell(
    index: number,
    segment: SpeechSegment,
    before: Promise<void> | undefined,
    recognition: Promise<TaskResult>,
  ): Promise<void> {
    const [outcome] = await Promise.allSettled([recognition, before]);
    try {
      if (outcome.status === 'rejected') throw outcome.reason;
      const { text, truncated } = outcome.value;
      if (!this.#context.signal.aborted) {
        this.#options.onSegment({ ...liveSegment(index, segment), text, truncated });
      }
    } catch (error) {
      this.#context.fail(error);
    } finally {
      this.#pending.shift();
    }
  }
}

/**
 * Recognizes live PCM by segments of speech. The recognizer may serve whatever else meanwhile, in the same batches.
 * @throws {WavepoolError} INVALID_REQUEST, OPTION_UNSUPPORTED, BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, or why a model could not
 * be loaded.
 */
export async function openLiveTranscription(
  options: LiveTranscriptionOptions,
): Promise<LiveStream> {
  const { recognizer, signal, busyTimeoutMs } = options;
  const settings = parseLiveTranscribeSettings(options.options);
  const { vad, maxSegmentSeconds = Number.POSITIVE_INFINITY } = settings;
  const { info } = await recognizer.prepare({ signal, busyTimeoutMs });
  if (info.task !== 'asr') {
    throw new WavepoolError('INVALID_REQUEST', `${recognizer.id} does not recognize speech`);
  }
  const taskOptions = { ...recognizerOptions(settings, recognizer.id, info) };
  const modelLimit = info.maxSegmentSeconds || LONGEST_SEGMENT_SECONDS;
  return LiveStream.open({
    ...options,
    segmenting: { vad, longestSeconds: Math.min(maxSegmentSeconds, modelLimit) },
    createSink: (context) => new Recognition(options, taskOptions, context),
  });
}
