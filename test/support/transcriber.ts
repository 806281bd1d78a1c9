/**
 * A worker without an engine: it opens inputs as a real one does, and takes the bytes of a file for its transcript. Cancel
 * requests reach it as they reach a real one.
 */
import { readFile } from 'node:fs/promises';
import { isErrorCode, WavepoolError } from '../../src/core/errors.ts';
import { CancellationListener } from '../../src/queue/jobs/cancellation.ts';
import type { RedisAddress } from '../../src/queue/redis/connection.ts';
import { type InputPlaces, resolveInput } from '../../src/storage/inputs.ts';
import type { ResultStore } from '../../src/storage/result-store.ts';
import { transcriptOf } from './transcript.ts';
import { outcomeOf, startWorker } from './worker.ts';

export interface TranscriberOptions {
  readonly address: RedisAddress;
  readonly model: string;
  readonly results: ResultStore;
  readonly places: InputPlaces;
}

/**
 * A file that begins with `call` has its words told by two speakers in turn, with times and less and less sure; one with
 * `fail CODE` fails with it, one that begins with `hang` runs until it is cancelled, and what is no
 * text cannot be decoded.
 */
export async function startTranscriber(options: TranscriberOptions): Promise<AsyncDisposable> {
  const { address, model, results, places } = options;
  const cancellations = await CancellationListener.open({ address, queue: model });
  const worker = startWorker(address, model, async (job) => {
    const id = String(job.id);
    const { submittedAt } = job.data;
    const abort = new AbortController();
    const { signal } = abort;
    const cancel = (reason: WavepoolError) => abort.abort(reason);
    using _ = await cancellations.watch({ id, submittedAt, cancel });
    await using input = await resolveInput(job.data.input, places, signal);
    const bytes = await readFile(input.path);
    const text = decode(bytes, input.name);
    const [word = '', code = ''] = text.split(' ');
    if (word === 'fail' && isErrorCode(code)) throw new WavepoolError(code, 'as told');
    if (word === 'hang') {
      await job.updateProgress({
        phase: 'running',
        processedSeconds: 0.5,
        totalSeconds: 1,
        segmentsDone: 0,
      });
      await aborted(signal);
    }
    const transcript = transcriptOf(id, text);
    const { key } = await results.commit(id, {
      ...transcript,
      ...(word === 'call' ? spokenInTurns(text) : {}),
      input: { name: input.name, path: input.path, bytes: bytes.length },
    });
    return outcomeOf(key);
  });
  return {
    [Symbol.asyncDispose]: async () => {
      await worker[Symbol.asyncDispose]();
      cancellations.close();
    },
  };
}

/** A German call: a word a second. */
function spokenInTurns(text: string) {
  const words = text.split(' ');
  const segments = words.map((word, at) => {
    const span = { start: at, end: at + 1, text: word };
    const confidence = Math.max(0.1, 1 - at / 4);
    const speaker = at % 2 === 0 ? 'agent' : 'caller';
    return { ...span, speaker, confidence, words: [{ ...span, confidence }] };
  });
  return { language: 'de', segments };
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new WavepoolError('INPUT_UNDECODABLE', name, { cause });
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const fail = (): void => reject(signal.reason instanceof Error ? signal.reason : new Error());
    if (signal.aborted) fail();
    else signal.addEventListener('abort', fail, { once: true });
  });
}
