/** `wavepool limits`: how many jobs of a model may start in a time. */
import { type Command, InvalidArgumentError } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import { parseModelId } from '../../core/job/job.ts';
import { RateLimit } from '../../core/job/tenant.ts';
import { AudioQueue } from '../../queue/audio-queue.ts';
import { readKnownModels } from '../../queue/jobs/known-models.ts';
import { readRateLimit } from '../../queue/jobs/rate-limit.ts';
import { queueNameOf } from '../../queue/redis/queue-names.ts';
import { RedisAccess, withConnection } from '../access/redis-access.ts';
import { addQueueOptions, type PlaceOptions, parseDuration, placesOf } from '../options/options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { formatDuration, textTable } from '../terminal/text.ts';

type ListOptions = PlaceOptions & { readonly json?: true };

export function addLimitsCommand(program: Command, context: CliContext): void {
  const limits = program.command('limits').description('how many jobs of a model start in a time');
  addQueueOptions(limits.command('list'))
    .description('show the limits of all models')
    .option('--json', 'print one JSON array on stdout')
    .action((options: ListOptions) => list(options, context));
  addQueueOptions(limits.command('set'))
    .description('limit a model, over all workers')
    .argument('<model>')
    .argument('<jobs/time>', 'such as 100/1m', parseRate)
    .action((model: string, limit: RateLimit, options: PlaceOptions) =>
      change(model, limit, options, context),
    );
  addQueueOptions(limits.command('remove'))
    .description('end the limit of a model')
    .argument('<model>')
    .action((model: string, options: PlaceOptions) => change(model, undefined, options, context));
}

async function list(options: ListOptions, context: CliContext): Promise<void> {
  const limited = await withConnection(options, context, async (connection) => {
    const models = await readKnownModels(connection);
    const limits = await Promise.all(
      models.map(async (model) => ({
        model,
        rateLimit: await readRateLimit(connection, queueNameOf(model)),
      })),
    );
    return limits.filter(({ rateLimit }) => rateLimit !== undefined);
  });
  if (options.json === true) {
    printLine(context.stdout, JSON.stringify(limited));
    return;
  }
  const rows = limited.map(({ model, rateLimit }) => [
    model,
    rateLimit === undefined ? '' : describe(rateLimit),
  ]);
  context.stdout.write(textTable([['MODEL', 'LIMIT'], ...rows]));
}

async function change(
  model: string,
  limit: RateLimit | undefined,
  options: PlaceOptions,
  context: CliContext,
): Promise<void> {
  await using redis = await RedisAccess.open(placesOf(context.config, options));
  const { address } = redis;
  await using queue = await AudioQueue.open({ address, model: parseModelId(model) });
  if (limit === undefined && (await queue.rateLimit()) === undefined)
    throw new WavepoolError('INVALID_REQUEST', `${model} has no limit`);
  await queue.setRateLimit(limit);
  const now = limit === undefined ? 'no limit' : describe(limit);
  printLine(context.stderr, `${model}: ${now}`);
}

function describe({ jobs, durationMs }: RateLimit): string {
  return `${jobs} jobs in ${formatDuration(durationMs / 1_000)}`;
}

function parseRate(text: string): RateLimit {
  const [, jobs = '', time = ''] = /^(\d+)\/(.+)$/.exec(text) ?? [];
  const limit = RateLimit.safeParse({
    jobs: Number(jobs),
    durationMs: time === '' ? 0 : parseDuration(/^\d/.test(time) ? time : `1${time}`),
  });
  if (limit.success) return limit.data;
  throw new InvalidArgumentError('Use JOBS/TIME such as 100/1m.');
}
