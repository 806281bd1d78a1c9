/** `wavepool enqueue`: adds jobs to a model's queue and leaves them to its workers. */
import { createHash } from 'node:crypto';
import type { Command } from 'commander';
import { Option } from 'commander';
import { resolveRoots, type ScannedInput, scanInputs } from '../bulk/scan.ts';
import type { NewJob, OmitEach, RawAudioFormat } from '../core/job.ts';
import { AudioQueue } from '../queue/audio-queue.ts';
import type { CliContext } from './context.ts';
import { printLine } from './context.ts';
import { addEffortOptions, type EffortOptions, effortOf } from './effort-options.ts';
import { EXIT } from './exit-codes.ts';
import type { PlaceOptions } from './options.ts';
import {
  addInputFormatOption,
  addOutputOptions,
  addQueueOptions,
  parseDuration,
  placesOf,
} from './options.ts';
import { RedisAccess } from './redis-access.ts';
import { describeProblem } from './run-report.ts';
import { addTaskOptions, type TaskOptions, taskChoiceOf } from './task-options.ts';

/** Inputs added in one call. */
const CHUNK = 500;

interface EnqueueOptions extends PlaceOptions, TaskOptions, EffortOptions {
  readonly delay?: number;
  readonly deadline?: number;
  readonly idempotencyKey?: string;
  readonly inputFormat?: RawAudioFormat;
  readonly partials?: true;
  readonly json?: true;
  readonly quiet?: true;
}

const HELP = `
Prints the id of each job, in the order of the inputs. Workers on the same Redis take them: \`wavepool worker\`.
\`wavepool jobs show ID\` tells how a job is doing. With --idempotency-key the same command may be repeated: a file whose job
is known already is not added again, whatever became of that job.

Exit codes: 0 all added, 1 some files could not be looked at, 2 usage, 3 this machine or its services.`;

export function addEnqueueCommand(program: Command, context: CliContext): void {
  const command = program
    .command('enqueue')
    .description('add files and directories to the queue of a model')
    .argument('<path...>', 'audio or video files, or directories of them')
    .addOption(
      new Option('--delay <time>', 'start no earlier than this from now').argParser(parseDuration),
    )
    .addOption(
      new Option('--deadline <time>', 'end within this time from now, waiting included').argParser(
        parseDuration,
      ),
    )
    .option('--idempotency-key <key>', 'adds each file once, however often the command is repeated')
    .option('--partials', 'tell segments as they are found or recognized');
  addEffortOptions(command);
  addTaskOptions(command);
  addInputFormatOption(command);
  addQueueOptions(command);
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
  const roots = await resolveRoots(paths);
  const { model } = taskChoiceOf(options);
  await using redis = await RedisAccess.open(placesOf(context.config, options));
  await using queue = await AudioQueue.open({ address: redis.address, model });
  const submission = new Submission(queue, options, context);
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
  readonly #settings: OmitEach<NewJob, 'input'>;
  #pending: ScannedInput[] = [];

  constructor(queue: AudioQueue, options: EnqueueOptions, context: CliContext) {
    this.#queue = queue;
    this.#options = options;
    this.#context = context;
    const { delay, partials, deadline } = options;
    const { clocks, ...effort } = effortOf(options);
    this.#settings = {
      ...taskChoiceOf(options).job,
      ...effort,
      ...(delay === undefined ? {} : { delayMs: delay }),
      ...(partials === undefined ? {} : { partials }),
      clocks: {
        ...clocks,
        ...(deadline === undefined ? {} : { deadlineAt: Date.now() + deadline }),
      },
    };
  }

  async add(input: ScannedInput): Promise<void> {
    this.#pending.push(input);
    if (this.#pending.length === CHUNK) await this.flush();
  }

  async flush(): Promise<void> {
    const inputs = this.#pending;
    this.#pending = [];
    const ids = await this.#queue.addMany(inputs.map((input) => this.#jobOf(input)));
    this.added += ids.length;
    for (const [at, id] of ids.entries()) {
      const { model } = this.#queue;
      const line = { id, model, path: inputs[at]?.path };
      printLine(this.#context.stdout, this.#options.json === true ? JSON.stringify(line) : id);
    }
  }

  #jobOf({ path }: ScannedInput): NewJob {
    const { idempotencyKey, inputFormat, tenant = '' } = this.#options;
    const input = { kind: 'path', path, rawFormat: inputFormat } as const;
    if (idempotencyKey === undefined) return { ...this.#settings, input };
    const identity = JSON.stringify([tenant, idempotencyKey, path]);
    const id = `key-${createHash('sha256').update(identity).digest('hex').slice(0, 40)}`;
    return { ...this.#settings, id, input };
  }
}
