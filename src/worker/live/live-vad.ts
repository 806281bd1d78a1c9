import { type LiveVadSettingsInput, parseLiveVadSettings } from '../../core/live/live.ts';
import type { SpeechSegment } from '../speech/speech-segmenter.ts';
import {
  type LiveSegment,
  LiveStream,
  type LiveStreamOptions,
  liveSegment,
  type SpeechSink,
} from './live-stream.ts';

export interface LiveVadOptions extends LiveStreamOptions {
  /** Settings of the voice activity detection. */
  readonly options?: LiveVadSettingsInput | undefined;
  /** Called when a stretch of speech has ended, in order. What it throws ends the stream. */
  readonly onSegment: (segment: LiveSegment) => void;
}

/** Reports each segment at once, so nothing is pending and no audio is needed again. */
class SegmentReporter implements SpeechSink {
  readonly pending = 0;
  readonly #onSegment: LiveVadOptions['onSegment'];
  #count = 0;

  constructor(onSegment: LiveVadOptions['onSegment']) {
    this.#onSegment = onSegment;
  }

  take(segment: SpeechSegment): void {
    this.#onSegment(liveSegment(this.#count, segment));
    this.#count += 1;
  }

  firstNeededSample(_keepFrom: number, searchedTo: number): number {
    return searchedTo;
  }

  oldestEnded(): Promise<void> {
    return Promise.resolve();
  }

  allEnded(): Promise<void> {
    return Promise.resolve();
  }
}

/**
 * Finds speech in live PCM. The slot of the detector is the stream's until it has been finished, cancelled, aborted or
 * abandoned.
 * @throws {WavepoolError} INVALID_REQUEST, BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, or why the detector has no model.
 */
export async function openLiveVad(options: LiveVadOptions): Promise<LiveStream> {
  const { vad, maxSegmentSeconds } = parseLiveVadSettings(options.options);
  return LiveStream.open({
    ...options,
    segmenting: { vad, longestSeconds: maxSegmentSeconds },
    createSink: () => new SegmentReporter(options.onSegment),
  });
}
