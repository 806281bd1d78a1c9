/** `wavepool enqueue`: adds jobs to a model's queue and leaves them to its workers. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import { resolveRoots, type ScannedInput, scanInputs } from '../../bulk/scan.ts';
import type { Config } from '../../core/config.ts';
import type { JobId, NewJob, OmitEach, RawAudioFormat, UploadInput } from '../../core/job/job.ts';
import {
  formatObjectAddress,
  isObjectAddress,
  type ObjectAddress,
  parseObjectAddress,
} from '../../core/s3-settings.ts';
import { JobWebhookEvent } from '../../core/webhook.ts';
import { UploadReferences } from '../../queue/access/upload-references.ts';
import { AudioQueue } from '../../queue/audio-queue.ts';
import type { RedisAddress } from '../../queue/redis/connection.ts';
import { openStorage } from '../../storage/open-storage.ts';
import type { UploadStore } from '../../storage/upload-store.ts';
import { openTracing } from '../../tracing/open-tracing.ts';
import { RedisAccess } from '../access/redis-access.ts';
import { addEffortOptions, type EffortOptions, effortOf } from '../options/effort-options.ts';
import {
  addInputFormatOption,
  addOutputOptions,
  addQueueOptions,
  addStorageOption,
  type PlaceOptions,
  parseDuration,
  parseListOf,
  placesOf,
  resultsFolder,
  uploadsFolder,
} from '../options/options.ts';
import { addTaskOptions, type TaskOptions, taskChoiceOf } from '../options/task-options.ts';
import { describeProblem } from '../run/run-report.ts';
import { type CliContext, EXIT, printLine } from '../terminal/context.ts';

/** Inputs added in one call. */
const CHUNK = 500;

interface EnqueueOptions extends PlaceOptions, TaskOptions, EffortOptions {
  readonly delay?: number;
  readonly deadline?: number;
  readonly idempotencyKey?: string;
  readonly inputFormat?: RawAudioFormat;
  readonly partials?: true;
  readonly webhook?: string;
  readonly webhookEvents?: JobWebhookEvent[];
  readonly json?: true;
  readonly quiet?: true;
}

const HELP = `
Prints the id of each job, in the order of the inputs. With --storage files are sent there first, and workers on other machines
can read them. Workers on the same Redis take them: \`wavepool worker\`.
\`wavepool jobs show ID\` tells how a job is doing. With --idempotency-key the same command may be repeated: a file whose job
is known already is not added again, whatever became of that job.

Exit codes: 0 all added, 1 some files could not be looked at, 2 usage, 3 this machine or its services.`;

export function addEnqueueCommand(program: Command, context: CliContext): void {
  const command = program
    .command('enqueue')
    .description('add files and directories to the queue of a model')
    .argument(
      '<path...>',
      'audio or video files, directories of them, or objects (s3://BUCKET/KEY)',
    )
    .addOption(
      new Option('--delay <time>', 'start no earlier than this from now').argParser(parseDuration),
    )
    .addOption(
      new Option('--deadline <time>', 'end within this time from now, waiting included').argParser(
        parseDuration,
      ),
    )
    .option('--idempotency-key <key>', 'adds each file once, however often the command is repeated')
    .option('--partials', 'tell segments as they are found or recognized')
    .option('--webhook <url>', 'tell this address how each job ends')
    .addOption(
      new Option('--webhook-events <list>', `of ${JobWebhookEvent.options.join(', ')}`).argParser(
        parseListOf(JobWebhookEvent.options),
      ),
    );
  addEffortOptions(command);
  addTaskOptions(command);
  addInputFormatOption(command);
  addQueueOptions(command);
  addStorageOption(command);
  addOutputOptions(command);
  command.addHelpText('after', HELP).action(async (paths: string[], options: EnqueueOptions) => {
    await enqueue(paths, options, context);
  });
}

async function enqueue(
  paths: readonly string[],
  options: EnqueueOptions,
  context: CliContext,
): Promise<void> {
  const objects = paths.filter(isObjectAddress).map(parseObjectAddress);
  const roots = await resolveRoots(paths.filter((given) => !isObjectAddress(given)));
  const { model } = taskChoiceOf(options);
  const config = placesOf(context.config, options);
  await using redis = await RedisAccess.open(config);
  await using tracing = await openTracing(context.config.tracing, 'enqueue');
  await using queue = await AudioQueue.open({ address: redis.address, model, tracing });
  const isShared = config.s3.place !== undefined;
  await using uploads = isShared ? await SharedUploads.open(config, redis.address) : undefined;
  const submission = new Submission(queue, options, { context, uploads });
  for (const address of objects) await submission.add(address);
  let skipped = 0;
  let problems = 0;
  const everyFile = options.inputFormat !== undefined;
  for await (const entry of scanInputs(roots, { everyFile })) {
    if (entry.kind === 'input') await submission.add(entry);
    else if (entry.kind === 'skipped') skipped += 1;
    else {
      problems += 1;
      printLine(context.stderr, describeProblem(entry, process.cwd()));
    }
  }
  await submission.flush();
  if (problems > 0) context.exitCode = EXIT.someFailed;
  if (options.quiet === true) return;
  const more = skipped > 0 ? `, ${skipped} more files are no audio` : '';
  printLine(context.stderr, `${submission.added} jobs for ${model}${more}`);
}

/** Adds inputs some hundred at a time, so that memory does not grow with the directory. */
class Submission {
  added = 0;
  readonly #queue: AudioQueue;
  readonly #options: EnqueueOptions;
  readonly #context: CliContext;
  readonly #uploads: SharedUploads | undefined;
  readonly #settings: OmitEach<NewJob, 'input'>;
  #pending: Source[] = [];

  constructor(
    queue: AudioQueue,
    options: EnqueueOptions,
    {
      context,
      uploads,
    }: { readonly context: CliContext; readonly uploads: SharedUploads | undefined },
  ) {
    this.#queue = queue;
    this.#options = options;
    this.#context = context;
    this.#uploads = uploads;
    const { delay, partials, deadline, webhook: url, webhookEvents: events } = options;
    const { clocks, ...effort } = effortOf(options);
    this.#settings = {
      ...taskChoiceOf(options).job,
      ...effort,
      ...(delay === undefined ? {} : { delayMs: delay }),
      ...(partials === undefined ? {} : { partials }),
      ...(url === undefined ? {} : { webhook: { url, ...(events && { events }) } }),
      clocks: {
        ...clocks,
        ...(deadline === undefined ? {} : { deadlineAt: Date.now() + deadline }),
      },
    };
  }

  async add(input: Source): Promise<void> {
    this.#pending.push(input);
    if (this.#pending.length === CHUNK) await this.flush();
  }

  async flush(): Promise<void> {
    const sources = this.#pending;
    this.#pending = [];
    const jobs: NewJob[] = [];
    // One after the other: files are large, and each is sent in parts that go side by side.
    for (const source of sources) jobs.push(await this.#jobOf(source));
    const ids = await this.#queue.addMany(jobs);
    this.added += ids.length;
    for (const [at, id] of ids.entries()) {
      const source = sources[at];
      const { model } = this.#queue;
      const line = { id, model, path: source === undefined ? undefined : shownSource(source) };
      printLine(this.#context.stdout, this.#options.json === true ? JSON.stringify(line) : id);
    }
  }

  async #jobOf(source: Source): Promise<NewJob> {
    const { idempotencyKey, inputFormat: rawFormat, tenant = '' } = this.#options;
    const identity = JSON.stringify([tenant, idempotencyKey, shownSource(source)]);
    const id =
      idempotencyKey === undefined
        ? randomUUID()
        : `key-${createHash('sha256').update(identity).digest('hex').slice(0, 40)}`;
    if ('bucket' in source) {
      return { ...this.#settings, id, input: { kind: 'object', ...source, rawFormat } };
    }
    const { path } = source;
    const input =
      this.#uploads === undefined
        ? ({ kind: 'path', path, rawFormat } as const)
        : await this.#uploads.send(path, id, rawFormat);
    return { ...this.#settings, id, input };
  }
}

/** A file that was found, or an object that was named. */
type Source = ScannedInput | ObjectAddress;

function shownSource(source: Source): string {
  return 'bucket' in source ? formatObjectAddress(source) : source.path;
}

/** Sends inputs that workers elsewhere are to read to the storage that they share. */
class SharedUploads implements AsyncDisposable {
  readonly #store: UploadStore;
  readonly #references: UploadReferences;

  private constructor(store: UploadStore, references: UploadReferences) {
    this.#store = store;
    this.#references = references;
  }

  /** @throws {WavepoolError} STORAGE_UNSUITABLE, STORAGE_FORBIDDEN, STORAGE_UNAVAILABLE, REDIS_UNAVAILABLE */
  static async open(config: Config, address: RedisAddress): Promise<SharedUploads> {
    const storage = await openStorage({ resultsDir: resultsFolder(config), s3: config.s3 });
    const store = await storage.openUploads(uploadsFolder(config));
    return new SharedUploads(store, await UploadReferences.open(address));
  }

  /** Sends a file, and keeps it for a job that is about to be added. */
  async send(file: string, jobId: JobId, rawFormat?: RawAudioFormat): Promise<UploadInput> {
    const { id } = await this.#store.write(createReadStream(file), {
      maxBytes: Number.MAX_SAFE_INTEGER,
    });
    await this.#references.add(id, jobId);
    return { kind: 'upload', id, name: basename(file), rawFormat };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#references[Symbol.asyncDispose]();
  }
}
