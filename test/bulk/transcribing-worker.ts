/** A worker that needs no model: the transcript of a file is its content. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Job, Worker } from 'bullmq';
import { isErrorCode, toWavepoolError, WavepoolError } from '../../src/core/errors.ts';
import type { JobData, JobInput, JobOutcome } from '../../src/core/job/job.ts';
import { toQueueError } from '../../src/queue/jobs/failures.ts';
import type { RedisAddress } from '../../src/queue/redis/connection.ts';
import { openConnection } from '../../src/queue/redis/connection.ts';
import { queueNameOf, queuePrefix } from '../../src/queue/redis/queue-names.ts';
import { describeInput, type InputPlaces, resolveInput } from '../../src/storage/inputs.ts';
import type { ResultStore } from '../../src/storage/result-store.ts';
import { transcriptOf } from '../support/transcript.ts';
import { outcomeOf } from '../support/worker.ts';

export interface TranscribingWorkerOptions {
  readonly address: RedisAddress;
  readonly model: string;
  readonly results: ResultStore;
  /** Jobs at once. @defaultValue 2 */
  readonly concurrency?: number;
  /** @defaultValue inputs are paths */
  readonly places?: InputPlaces;
  /** Awaited before a job ends. */
  readonly before?: (inputName: string) => Promise<void> | void;
}

export interface TranscribingWorker extends AsyncDisposable {
  /** Names of the inputs in the order in which they were run. */
  readonly ran: readonly string[];
  /** Takes no more jobs; resolves when running ones have ended. */
  close(): Promise<void>;
}

/** An empty file is one to this worker. */
async function textOf(input: JobInput, places: InputPlaces | undefined): Promise<string> {
  if (input.kind === 'path') return readFile(input.path, 'utf8');
  await using file = await resolveInput(input, places);
  const text = await readFile(file.path, 'utf8');
  return text;
}

/** A file that starts with `fail CODE` fails with that code; an empty transcript is no speech. */
export function startTranscribingWorker(options: TranscribingWorkerOptions): TranscribingWorker {
  const { address, model, results, places, before, concurrency = 2 } = options;
  const ran: string[] = [];
  const connection = openConnection(address, { role: 'patient', name: 'worker' });
  const transcribe = async (job: Job<JobData>): Promise<JobOutcome> => {
    const { input } = job.data;
    const filePath = describeInput(input);
    ran.push(path.basename(filePath));
    const text = await textOf(input, places);
    await job.updateProgress({
      phase: 'running',
      processedSeconds: 0.5,
      totalSeconds: 1,
      segmentsDone: 0,
    });
    await before?.(path.basename(filePath));
    const code = /^fail (\w+)/.exec(text)?.[1];
    if (isErrorCode(code)) throw new WavepoolError(code, filePath);
    const { key } = await results.commit(String(job.id), transcriptOf(String(job.id), text));
    return { ...outcomeOf(key), noSpeech: text === '' };
  };
  const worker = new Worker<JobData, JobOutcome>(
    queueNameOf(model),
    async (job) => {
      try {
        return await transcribe(job);
      } catch (error) {
        throw toQueueError(toWavepoolError(error));
      }
    },
    { connection, prefix: queuePrefix(connection), concurrency },
  );
  worker.on('error', () => undefined);
  const close = async (): Promise<void> => {
    await worker.close();
    connection.disconnect();
  };
  return { ran, close, [Symbol.asyncDispose]: close };
}
