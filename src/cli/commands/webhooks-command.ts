/** `wavepool webhooks`: what became of deliveries, and the secrets that sign them. */
import { type Command, Option } from 'commander';
import type { DeliveryResource, SecretResource } from '../../core/http/webhook-message.ts';
import { parseJobId } from '../../core/job/job.ts';
import { readKnownModels } from '../../queue/jobs/known-models.ts';
import { WebhookDeliveries } from '../../queue/webhooks/webhook-deliveries.ts';
import { WebhookSecrets } from '../../queue/webhooks/webhook-secrets.ts';
import { withConnection } from '../access/redis-access.ts';
import { addPlaceOptions, type PlaceOptions, parseDuration } from '../options/options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { textTable } from '../terminal/text.ts';

interface WebhookOptions extends PlaceOptions {
  readonly json?: true;
}

interface SecretOptions extends WebhookOptions {
  readonly tenant?: string;
  readonly rotate?: true;
  readonly remove?: true;
  readonly keepOld: number;
}

const DAY_MS = 86_400_000;

const SECRET_HELP = `
Prints the secrets that sign now, the newest first. Without --tenant they are the server's, which sign for every tenant that
has none of its own: those of WAVEPOOL_WEBHOOK_SECRET, else one that is made when it is first needed.`;

export function addWebhooksCommand(program: Command, context: CliContext): void {
  const webhooks = program
    .command('webhooks')
    .description('deliveries of webhooks and their secrets');
  addPlaceOptions(webhooks.command('list'))
    .description('show what became of the webhook of a job or a batch')
    .argument('<id>', 'of the job or the batch')
    .option('--json', 'print one JSON object on stdout')
    .action((id: string, options: WebhookOptions) => list(id, options, context));
  addPlaceOptions(webhooks.command('redeliver'))
    .description('send deliveries once more, under their ids')
    .argument('<delivery...>', 'as `wavepool webhooks list` shows them')
    .action((ids: string[], options: PlaceOptions) => redeliver(ids, options, context));
  addPlaceOptions(webhooks.command('secret'))
    .description('show, replace or remove the secret of a tenant or of the server')
    .option('--tenant <name>', 'whose it is')
    .option('--rotate', 'make a new one; the one before signs on for a while')
    .addOption(
      new Option('--keep-old <time>', 'for how long, with --rotate')
        .argParser(parseDuration)
        .default(DAY_MS, '24h'),
    )
    .addOption(
      new Option('--remove', 'give the tenant the secret of the server').conflicts('rotate'),
    )
    .option('--json', 'print one JSON object on stdout')
    .addHelpText('after', SECRET_HELP)
    .action((options: SecretOptions, command: Command) => secret(options, command, context));
}

async function list(id: string, options: WebhookOptions, context: CliContext): Promise<void> {
  const jobId = parseJobId(id);
  const deliveries = await withConnection(options, context, async (connection) => {
    const all = new WebhookDeliveries(connection);
    try {
      const queues = await readKnownModels(connection);
      const ofJobs = queues.map((queue) => all.list({ kind: 'job', queue, id: jobId }));
      return (await Promise.all([...ofJobs, all.list({ kind: 'batch', id: jobId })])).flat();
    } finally {
      await all.close();
    }
  });
  if (options.json === true) printLine(context.stdout, JSON.stringify({ items: deliveries }));
  else context.stdout.write(deliveryTable(deliveries));
}

function deliveryTable(deliveries: readonly DeliveryResource[]): string {
  if (deliveries.length === 0) return 'no deliveries\n';
  const rows = deliveries.map(({ id, event, state, attempts, nextAttemptAt, url }) => {
    const last = attempts.at(-1);
    const note = last?.error ?? (last === undefined ? '' : `status ${last.status}`);
    return [id, event, state, String(attempts.length), nextAttemptAt ?? '', url, note];
  });
  const head = ['delivery', 'event', 'state', 'attempts', 'next', 'url', 'last answer'];
  return textTable([head, ...rows]);
}

async function redeliver(
  ids: readonly string[],
  options: PlaceOptions,
  context: CliContext,
): Promise<void> {
  await withConnection(options, context, async (connection) => {
    const all = new WebhookDeliveries(connection);
    try {
      for (const id of ids) {
        const { state } = await all.redeliver(id);
        printLine(context.stdout, `${id}: ${state}`);
      }
    } finally {
      await all.close();
    }
  });
}

async function secret(
  { tenant, rotate, remove, keepOld, ...options }: SecretOptions,
  command: Command,
  context: CliContext,
): Promise<void> {
  if (remove === true && tenant === undefined) {
    command.error('error: --remove needs --tenant: the server always has a secret');
  }
  const shown = await withConnection(options, context, async (connection) => {
    const { secrets: configured } = context.config.webhooks;
    const secrets = new WebhookSecrets({ connection, configured });
    if (remove === true && tenant !== undefined) await secrets.remove(tenant);
    return rotate === true ? secrets.rotate(tenant, keepOld) : secrets.show(tenant);
  });
  if (options.json === true) printLine(context.stdout, JSON.stringify(shown));
  else for (const line of secretLines(shown)) printLine(context.stdout, line);
}

function secretLines({ secrets }: SecretResource): string[] {
  return secrets.map((each) =>
    each.expiresAt === null ? each.secret : `${each.secret} until ${each.expiresAt}`,
  );
}
