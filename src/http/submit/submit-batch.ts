/** Adds a batch of jobs for a request. */
import { createHash, randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Request } from 'express';
import { WavepoolError } from '../../core/errors.ts';
import { BatchHeaderLine, type BatchRequest, BatchSettings } from '../../core/http/batch-api.ts';
import { parseRequestPart } from '../../core/http/problem.ts';
import type { BatchView } from '../../core/job/batch.ts';
import { itemWebhookOf } from '../../core/webhook.ts';
import type { NewItem } from '../../queue/batches/batches.ts';
import { claimIdempotencyKey } from '../../queue/jobs/idempotency.ts';
import type { RouteRequest } from '../request/route.ts';
import type { Services } from '../services.ts';
import { resolveAllowedFolder } from './allowed-path.ts';
import {
  type BatchInput,
  folderInputs,
  type JsonLine,
  lineInputs,
  listedInputs,
  readJsonLines,
  type ScanTally,
} from './batch-inputs.ts';
import { newJob, referToUploads, withTenant } from './submit-job.ts';
import { queueForTask } from './task-queue.ts';

export type BatchContext = Pick<
  RouteRequest<unknown, unknown, unknown, unknown>,
  'services' | 'caller' | 'signal' | 'logger'
> & { readonly idempotencyKey: string | undefined };

export interface SubmittedBatch extends ScanTally {
  readonly view: BatchView;
}

interface BatchSource {
  readonly settings: BatchSettings;
  readonly directory?: string;
  /** With the settings, this decides whether two requests with one idempotency key are the same request. */
  readonly content: unknown;
  readonly inputs: AsyncIterable<BatchInput>;
}

const HASHED_IN_ONE_TURN = 500;

/**
 * @throws {WavepoolError} MODEL_UNKNOWN, TASK_UNSUPPORTED, QUEUE_FULL, IDEMPOTENCY_CONFLICT, REDIS_UNAVAILABLE; see `resolveRequestInput`
 */
export async function submitBatch(
  { inputs = [], directory: path, ...settings }: BatchRequest,
  context: BatchContext,
): Promise<SubmittedBatch> {
  const { services, signal, logger } = context;
  const tally = { skipped: 0, unreadable: 0 };
  if (path === undefined) {
    const content = await hashOf(inputs);
    const source = { settings, content, inputs: listedInputs(inputs, context) };
    return { view: await submit(source, context), ...tally };
  }
  const directory = await resolveAllowedFolder(path, services.settings.inputRoots);
  const files = folderInputs({ directory, tally, signal, logger }, services);
  const source = { settings, directory, content: directory, inputs: files };
  return { view: await submit(source, context), ...tally };
}

/** @throws {WavepoolError} as `submitBatch` */
export async function submitBatchLines(
  req: Request,
  context: BatchContext,
): Promise<SubmittedBatch> {
  try {
    const { header, lines } = await readHeader(
      readJsonLines(req.iterator({ destroyOnReturn: false })),
    );
    const inputs = lineInputs(lines, context);
    const view = await submit({ settings: header, content: 'lines', inputs }, context);
    return { view, skipped: 0, unreadable: 0 };
  } catch (error) {
    // Nobody needs the rest of the body, so the connection ends with the answer.
    req.res?.set('Connection', 'close');
    req.resume();
    if (!req.destroyed || error instanceof WavepoolError) throw error;
    throw new WavepoolError('CANCELLED', 'the client has gone', { cause: error });
  }
}

/** The first line may hold settings instead of an input. */
async function readHeader(
  lines: AsyncGenerator<JsonLine>,
): Promise<{ header: BatchSettings; lines: AsyncGenerator<JsonLine> }> {
  const { value: first } = await lines.next();
  if (first === undefined) return { header: BatchSettings.parse({}), lines };
  const isHeader =
    typeof first.value === 'object' && first.value !== null && 'batch' in first.value;
  if (!isHeader) return { header: BatchSettings.parse({}), lines: prepended(first, lines) };
  const { batch } = parseRequestPart(BatchHeaderLine, first.value, `line ${first.number}`);
  return { header: batch, lines };
}

async function* prepended(
  first: JsonLine,
  rest: AsyncGenerator<JsonLine>,
): AsyncGenerator<JsonLine> {
  yield first;
  yield* rest;
}

async function submit(source: BatchSource, context: BatchContext): Promise<BatchView> {
  const { services, signal } = context;
  const { batches, limit } = services;
  const { directory, inputs } = source;
  const settings = withTenant(source.settings, context.caller);
  const { name, webhook, ...shared } = settings;
  const common = { ...shared, webhook: itemWebhookOf(webhook) };
  const queue = await queueForTask(settings, services);
  const id = await batchIdOf({ ...source, settings }, queue.model, context);
  try {
    return await batches.create({
      id,
      name,
      tenant: settings.tenant,
      model: queue.model,
      task: settings.task,
      directory,
      webhook,
      signal,
      jobs: jobsOf(inputs, newJob(common, services.now())),
      beforeAdd: async (jobs) => {
        await limit.reserve(queue, jobs.length);
        await referToUploads(jobs, services);
      },
    });
  } catch (thrown) {
    const error = signal.aborted ? goneOf(services) : thrown;
    if (!mayGoOn(error, context)) await abandon(id, services);
    throw error;
  }
}

async function* jobsOf(
  inputs: AsyncIterable<BatchInput>,
  common: ReturnType<typeof newJob>,
): AsyncGenerator<NewItem> {
  for await (const { key, input } of inputs) {
    yield { ...common, input, ...(key === undefined ? {} : { key }) };
  }
}

async function batchIdOf(
  { settings, content }: BatchSource,
  model: string,
  { services, caller, idempotencyKey: key }: BatchContext,
): Promise<string> {
  if (key === undefined) return randomUUID();
  const what = { batch: { ...settings, model }, content };
  return claimIdempotencyKey(services.queues.connection, { caller: caller.id, key, content: what });
}

/** Whether the client can continue the batch by sending the request again: it needs a key, and the error must be temporary. */
function mayGoOn(error: unknown, { idempotencyKey }: BatchContext): boolean {
  if (!(error instanceof WavepoolError)) return false;
  if (error.code === 'IDEMPOTENCY_CONFLICT') return true;
  return idempotencyKey !== undefined && (error.retryable || error.code === 'CANCELLED');
}

/** Cancels a batch that nobody can complete. If that fails, the batch ends with the jobs that it has: see `batch-flow.ts`. */
async function abandon(id: string, { batches, logger }: Services): Promise<void> {
  await batches.cancel(id).catch((error: unknown) => {
    if (error instanceof WavepoolError && error.code === 'BATCH_NOT_FOUND') return;
    logger.warn({ err: error, batchId: id }, 'a batch that broke off could not be cancelled');
  });
}

function goneOf({ closing }: Services): WavepoolError {
  return closing.aborted
    ? new WavepoolError('SHUTTING_DOWN', 'the server is ending')
    : new WavepoolError('CANCELLED', 'the client has gone');
}

/** Hashes a long list in pieces, so that the server can do other work in between. */
async function hashOf(inputs: readonly unknown[]): Promise<string> {
  const hash = createHash('sha256');
  for (const [at, input] of inputs.entries()) {
    hash.update(`${JSON.stringify(input)}\n`);
    if (at % HASHED_IN_ONE_TURN === 0) await nextTurn();
  }
  return hash.digest('hex');
}
