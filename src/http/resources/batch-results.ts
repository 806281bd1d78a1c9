/** Sends all results of a batch of jobs as JSON lines or as a ZIP archive. It holds one result at a time. */
import { relative, sep } from 'node:path';
import { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import type { Response } from 'express';
import { ZipFile } from 'yazl';
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { BatchResultLine } from '../../core/http/batch-api.ts';
import type { BatchView } from '../../core/job/batch.ts';
import type { JobResult } from '../../core/results/job-result.ts';
import {
  fileExtension,
  type ResultFormat,
  renderResult,
} from '../../core/results/result-formats.ts';
import type { BatchItem } from '../../queue/batches/batch-items.ts';
import { inputName } from '../../storage/inputs.ts';
import type { Services } from '../services.ts';
import { ArchiveNames } from './archive-names.ts';
import { failureResource } from './batch-resource.ts';

export interface ResultStream {
  readonly batch: BatchView;
  readonly format: ResultFormat;
  readonly services: Services;
  /** Ends the stream. */
  readonly signal: AbortSignal;
}

/** Sends a line for each item that has ended. */
export async function sendResultLines(stream: ResultStream, res: Response): Promise<void> {
  const { signal } = stream;
  res.status(200).type('application/x-ndjson');
  await pipeline(Readable.from(resultLines(stream), { highWaterMark: 1 }), res, { signal });
}

/** Sends a file for each completed item. */
export async function sendResultArchive(stream: ResultStream, res: Response): Promise<void> {
  const { batch, signal } = stream;
  const zip = new ZipFile();
  res.status(200).type('application/zip').attachment(`batch-${batch.id}.zip`);
  const broken = new AbortController();
  const ended = AbortSignal.any([signal, broken.signal]);
  const sent = pipeline(zip.outputStream, res, { signal: ended });
  try {
    await Promise.all([sent, addFiles(zip, { ...stream, signal: ended })]);
  } catch (error) {
    broken.abort(error);
    await sent.catch(() => undefined);
    throw error;
  }
}

async function* resultLines({ batch, format, services }: ResultStream): AsyncGenerator<string> {
  const queue = await services.queues.queueOf(batch.model);
  for await (const item of services.batches.ended(batch.id)) {
    const line = await resultLine(item, format, services);
    if (line.name === null) {
      const job = await queue.get(item.id);
      if (job !== undefined) line.name = inputName(job.data.input);
    }
    yield `${JSON.stringify(line)}\n`;
  }
}

async function resultLine(
  item: BatchItem,
  format: ResultFormat,
  services: Services,
): Promise<BatchResultLine> {
  const { index, id, outcome, failure } = item;
  const known = { index, id, name: null };
  if (outcome === undefined) {
    const state = item.state === 'cancelled' ? 'cancelled' : 'failed';
    return {
      ...known,
      state,
      ...(failure === undefined ? {} : { failure: failureResource(failure) }),
    };
  }
  const result = await readResult(outcome.resultKey, services);
  if (result instanceof WavepoolError) {
    const { code, message, retryable } = result;
    return { ...known, state: 'completed', failure: failureResource({ code, message, retryable }) };
  }
  const content = format === 'json' ? asMember(result) : { text: renderResult(result, format) };
  return { ...known, state: 'completed', name: result.input.name, ...content };
}

/** Each task has a member of its own, so readers of transcripts get only transcripts. */
function asMember(result: JobResult): Pick<BatchResultLine, 'transcript' | 'speech'> {
  return result.task === 'transcribe' ? { transcript: result } : { speech: result };
}

/** Returns an error for a result that was removed or is damaged, so that the other results are still sent. */
async function readResult(
  key: string,
  { results, logger }: Services,
): Promise<JobResult | WavepoolError> {
  try {
    return await results.read(key);
  } catch (thrown) {
    const error = toWavepoolError(thrown);
    if (error.code !== 'RESULT_NOT_FOUND') logger.error({ err: thrown, key }, 'unreadable result');
    return error;
  }
}

/** Opens a file only when the one before was read to its end. What is not sent yet then fits in small buffers. */
async function addFiles(
  zip: ZipFile,
  { batch, format, services, signal }: ResultStream,
): Promise<void> {
  const names = new ArchiveNames();
  for await (const { index, outcome } of services.batches.ended(batch.id)) {
    signal.throwIfAborted();
    if (outcome === undefined) continue;
    const result = await readResult(outcome.resultKey, services);
    if (result instanceof WavepoolError) continue;
    const name = names.add(sourceName(result, batch), fileExtension(format), index);
    const file = Readable.from([Buffer.from(renderResult(result, format))]);
    const mtime = new Date(result.createdAt);
    zip.addReadStream(file, name, { mtime, mode: 0o100644 });
    await finished(file, { signal });
  }
  zip.end();
}

/** The input's name. For an input in the batch's folder it starts with the folders below that one. */
function sourceName({ input }: JobResult, { directory }: BatchView): string {
  if (directory === undefined) return input.name;
  const way = relative(directory, input.path);
  const isOutside = way === '' || way === '..' || way.startsWith(`..${sep}`);
  return isOutside ? input.name : way.split(sep).join('/');
}
