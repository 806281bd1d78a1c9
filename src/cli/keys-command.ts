/** `wavepool keys`: who may use the HTTP interface. */
import { type Command, InvalidArgumentError } from 'commander';
import { ApiKeyScope } from '../core/api-key.ts';
import { WavepoolError } from '../core/errors.ts';
import { ApiKeys } from '../queue/api-keys.ts';
import { closeConnection, connect, openConnection } from '../queue/connection.ts';
import type { CliContext } from './context.ts';
import { printLine } from './context.ts';
import type { PlaceOptions } from './options.ts';
import { addPlaceOptions, placesOf } from './options.ts';
import { RedisAccess } from './redis-access.ts';
import { textTable } from './text-table.ts';

interface CreateOptions extends PlaceOptions {
  readonly name: string;
  readonly scope: ApiKeyScope[];
  readonly json?: true;
}

const HELP = `
Scopes: read sees jobs, results and workers; submit adds, cancels and retries jobs; manage changes what serves them. From the
first key on every request needs one.`;

export function addKeysCommand(program: Command, context: CliContext): void {
  const keys = program.command('keys').description('API keys of the HTTP interface');
  addPlaceOptions(keys.command('create'))
    .description('make a key and print it, once')
    .option('--name <text>', 'what it is for', 'unnamed')
    .option('--scope <list>', 'read, submit, manage', parseScopes, ['read', 'submit'])
    .option('--json', 'print one JSON object on stdout')
    .addHelpText('after', HELP)
    .action((options: CreateOptions) => create(options, context));
  addPlaceOptions(keys.command('list'))
    .description('list the keys, without their secrets')
    .option('--json', 'print one JSON array on stdout')
    .action((options: PlaceOptions & { json?: true }) => list(options, context));
  addPlaceOptions(keys.command('revoke'))
    .description('make a key worthless, with every login through it')
    .argument('<id>')
    .action((id: string, options: PlaceOptions) => revoke(id, options, context));
}

async function create(options: CreateOptions, context: CliContext): Promise<void> {
  const { record, key } = await withKeys(options, context, (keys) =>
    keys.create(options.name, options.scope),
  );
  const { id, name, scopes } = record;
  if (options.json === true) printLine(context.stdout, JSON.stringify({ id, name, scopes, key }));
  else printLine(context.stdout, key);
  printLine(context.stderr, `key ${id} may ${scopes.join(', ')}; it is not shown again`);
}

async function list(options: PlaceOptions & { json?: true }, context: CliContext): Promise<void> {
  const records = await withKeys(options, context, (keys) => keys.list());
  const shown = records.map(({ id, name, scopes, createdAt }) => ({
    id,
    name,
    scopes,
    createdAt: new Date(createdAt).toISOString(),
  }));
  if (options.json === true) {
    printLine(context.stdout, JSON.stringify(shown));
    return;
  }
  const rows = shown.map(({ id, name, scopes, createdAt }) => [
    id,
    scopes.join(','),
    createdAt,
    name,
  ]);
  context.stdout.write(textTable([['ID', 'SCOPES', 'CREATED', 'NAME'], ...rows]));
}

async function revoke(id: string, options: PlaceOptions, context: CliContext): Promise<void> {
  const { revoked, left } = await withKeys(options, context, async (keys) => ({
    revoked: await keys.revoke(id),
    left: await keys.exist(),
  }));
  if (!revoked) throw new WavepoolError('INVALID_REQUEST', `there is no key ${id}`);
  printLine(context.stderr, `key ${id} is revoked`);
  if (!left) printLine(context.stderr, 'no key is left: on loopback nobody is asked for one now');
}

async function withKeys<Result>(
  options: PlaceOptions,
  context: CliContext,
  use: (keys: ApiKeys) => Promise<Result>,
): Promise<Result> {
  await using redis = await RedisAccess.open(placesOf(context.config, options));
  const connection = openConnection(redis.address, { role: 'fail-fast', name: 'keys' });
  await connect(connection, redis.address);
  try {
    return await use(new ApiKeys(connection));
  } finally {
    closeConnection(connection);
  }
}

function parseScopes(text: string): ApiKeyScope[] {
  const scopes = text.split(',').map((scope) => ApiKeyScope.safeParse(scope.trim()).data);
  const known = scopes.filter((scope) => scope !== undefined);
  if (known.length === scopes.length) return known;
  throw new InvalidArgumentError(`Use a list of ${ApiKeyScope.options.join(', ')}.`);
}
