/** `wavepool tenants`: who shares the workers, and how. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import { readKnownModels } from '../../queue/jobs/known-models.ts';
import { JobTenants } from '../../queue/tenants/job-tenants.ts';
import { readTenantLoads } from '../../queue/tenants/tenant-loads.ts';
import { TenantRuleStore } from '../../queue/tenants/tenant-rules.ts';
import { withConnection } from '../access/redis-access.ts';
import { addQueueOptions, type PlaceOptions, parseCount } from '../options/options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { printable, textTable } from '../terminal/text.ts';

interface SetOptions extends PlaceOptions {
  readonly weight?: number;
  readonly concurrency?: number;
}

type ListOptions = PlaceOptions & { readonly json?: true };

const HELP = `
Tenants whose jobs wait take turns; of two with the weights 2 and 1 the first gets two of three. --concurrency bounds the jobs
of one model that run at once; the others wait. What is not given is put back to weight 1 and no limit. The tenant '*' is every
one without rules of its own.`;

export function addTenantsCommand(program: Command, context: CliContext): void {
  const tenants = program.command('tenants').description('who shares the workers, and how');
  addQueueOptions(tenants.command('list'))
    .description('show tenants that have rules, or jobs that wait or run')
    .option('--json', 'print one JSON array on stdout')
    .action((options: ListOptions) => list(options, context));
  addQueueOptions(tenants.command('set'))
    .description('set the share and the limit of a tenant')
    .argument('<tenant>', "its name, or '*'")
    .addOption(new Option('--weight <n>', 'from 0.0625 to 16 (default: 1)').argParser(parseWeight))
    .addOption(
      new Option('--concurrency <n>', 'most jobs of a model at once').argParser(parseCount(10_000)),
    )
    .addHelpText('after', HELP)
    .action((tenant: string, options: SetOptions) => set(tenant, options, context));
  addQueueOptions(tenants.command('remove'))
    .description('forget the rules of a tenant')
    .argument('<tenant>')
    .action((tenant: string, options: PlaceOptions) => remove(tenant, options, context));
}

async function list(options: ListOptions, context: CliContext): Promise<void> {
  const { rules, loads } = await withConnection(options, context, async (connection) => {
    const models = await readKnownModels(connection);
    return {
      rules: await new TenantRuleStore(connection).list(),
      loads: await readTenantLoads(connection, models, new JobTenants(connection)),
    };
  });
  const names = [...new Set([...rules.keys(), ...loads.map(({ tenant }) => tenant)])].toSorted();
  const shown = names.map((tenant) => {
    const own = loads.filter((load) => load.tenant === tenant);
    return {
      tenant,
      ...rules.get(tenant),
      waiting: own.reduce((sum, load) => sum + load.waiting, 0),
      running: own.reduce((sum, load) => sum + load.running, 0),
    };
  });
  if (options.json === true) {
    printLine(context.stdout, JSON.stringify(shown));
    return;
  }
  const rows = shown.map(({ tenant, weight = 1, concurrency, waiting, running }) => [
    printable(tenant),
    String(weight),
    concurrency === undefined ? '–' : String(concurrency),
    String(waiting),
    String(running),
  ]);
  context.stdout.write(textTable([['TENANT', 'WEIGHT', 'LIMIT', 'WAITING', 'RUNNING'], ...rows]));
}

async function set(tenant: string, options: SetOptions, context: CliContext): Promise<void> {
  const { weight, concurrency } = options;
  const { weight: share, concurrency: limit } = await withConnection(
    options,
    context,
    (connection) =>
      new TenantRuleStore(connection).set(tenant, {
        ...(weight === undefined ? {} : { weight }),
        ...(concurrency === undefined ? {} : { concurrency }),
      }),
  );
  const bound = limit === undefined ? 'no limit' : `at most ${limit} jobs of a model at once`;
  printLine(context.stderr, `tenant ${printable(tenant)}: weight ${share}, ${bound}`);
}

async function remove(tenant: string, options: PlaceOptions, context: CliContext): Promise<void> {
  const removed = await withConnection(options, context, (connection) =>
    new TenantRuleStore(connection).remove(tenant),
  );
  if (!removed) throw new WavepoolError('INVALID_REQUEST', `tenant ${tenant} has no rules`);
  printLine(context.stderr, `tenant ${printable(tenant)} has no rules of its own now`);
}

function parseWeight(text: string): number {
  const weight = Number(text);
  if (text.trim() !== '' && weight >= 0.0625 && weight <= 16) return weight;
  throw new InvalidArgumentError('Use a number from 0.0625 to 16.');
}
