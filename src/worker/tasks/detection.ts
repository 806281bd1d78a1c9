/**
 * One `vad` job inside a worker: decode → speech windows → segments. No slot of a recognizer is involved, and audio is freed
 * as soon as it has been searched, so that a job never holds more than one step of it.
 */
import type { JobProgress } from '../../core/job/job.ts';
import { SAMPLE_RATE } from '../../runtime/engine.ts';
import type { DecodeAllowance } from '../audio/decode-allowance.ts';
import type { InputReader } from '../audio/input-reader.ts';
import { type SearchRequest, type SearchServices, SpeechSearch } from '../speech/speech-search.ts';
import type { SpeechSegment } from '../speech/speech-segmenter.ts';

export interface DetectionServices extends SearchServices {
  readonly allowance: DecodeAllowance;
}

export interface DetectionRequest extends SearchRequest {
  /** Called after each step. */
  readonly onProgress: (progress: Omit<JobProgress, 'phase'>) => void;
  /** Called with each segment when it has ended. */
  readonly onSegment?: ((segment: SpeechSegment, index: number) => void) | undefined;
}

export interface Detection {
  readonly durationSeconds: number;
  /** All segments, in the order of the audio. */
  readonly segments: readonly SpeechSegment[];
  readonly decodeMs: number;
  readonly vadMs: number;
}

/** @throws {WavepoolError} what ended the job: a code of decoding or detection, CANCELLED or a timeout. */
export async function runDetection(
  reader: InputReader,
  request: DetectionRequest,
  services: DetectionServices,
  signal: AbortSignal,
): Promise<Detection> {
  const { audio } = reader;
  const { busyTimeoutMs } = request;
  const vad = await services.detector.prepare({ signal, busyTimeoutMs });
  const search = new SpeechSearch(reader, request, services, vad);
  const segments: SpeechSegment[] = [];
  const leave = services.allowance.enter();
  try {
    while (!audio.ended) {
      signal.throwIfAborted();
      await search.step(signal, (segment) => {
        request.onSegment?.(segment, segments.length);
        segments.push(segment);
      });
      audio.release(search.detectedSamples);
      request.onProgress({
        processedSeconds: search.detectedSamples / SAMPLE_RATE,
        totalSeconds: audio.ended ? audio.endSample / SAMPLE_RATE : null,
        segmentsDone: segments.length,
      });
    }
  } finally {
    leave();
  }
  const { decodeMs, vadMs } = search;
  return { durationSeconds: audio.endSample / SAMPLE_RATE, segments, decodeMs, vadMs };
}
