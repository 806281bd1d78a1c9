/** `wavepool keys`: who may use the HTTP interface. */
import { readFile } from 'node:fs/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { WavepoolError } from '../../core/errors.ts';
import {
  type ApiKeyResource,
  ApiKeyScope,
  ApiKeyTenant,
  apiKeyResource,
} from '../../core/http/api-key.ts';
import { ApiKeys } from '../../queue/access/api-keys.ts';
import { withConnection } from '../access/redis-access.ts';
import { addPlaceOptions, type PlaceOptions, parseListOf } from '../options/options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { textTable } from '../terminal/text.ts';

interface CreateOptions extends PlaceOptions {
  readonly name: string;
  readonly scope: ApiKeyScope[];
  readonly tenant?: string;
  readonly json?: true;
}

const HELP = `
Scopes: read sees jobs, results and workers; submit adds, cancels and retries jobs; manage changes what serves them. From the
first key on every request needs one. With --tenant, all of that is about the jobs, batches, uploads and schedules of one
tenant; what others have is not there for the key.`;

const IMPORT_HELP = `
A key is wp_, 16 hexadecimal digits, _ and 43 characters of base64url; docs/operations.md shows how to make one. Importing
it again changes nothing but its name, scopes and tenant.`;

export function addKeysCommand(program: Command, context: CliContext): void {
  const keys = program.command('keys').description('API keys of the HTTP interface');
  addPlaceOptions(keys.command('create'))
    .description('make a key and print it, once')
    .option('--name <text>', 'what it is for', 'unnamed')
    .option('--scope <list>', 'read, submit, manage', parseListOf(ApiKeyScope.options), [
      'read',
      'submit',
    ])
    .option('--tenant <name>', 'whose work it is for, and nothing else', parseTenant)
    .option('--json', 'print one JSON object on stdout')
    .addHelpText('after', HELP)
    .action((options: CreateOptions) => create(options, context));
  addPlaceOptions(keys.command('import'))
    .description('make a key valid that a deployment keeps as its secret')
    .argument('<file>', 'holds the key and nothing else')
    .option('--name <text>', 'what it is for', 'imported')
    .option('--scope <list>', 'read, submit, manage', parseListOf(ApiKeyScope.options), [
      'read',
      'submit',
    ])
    .option('--tenant <name>', 'whose work it is for, and nothing else', parseTenant)
    .addHelpText('after', IMPORT_HELP)
    .action((file: string, options: CreateOptions) => importKey(file, options, context));
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
    keys.create(options.name, options.scope, options.tenant),
  );
  const { createdAt: _, ...shown } = apiKeyResource(record);
  if (options.json === true) printLine(context.stdout, JSON.stringify({ ...shown, key }));
  else printLine(context.stdout, key);
  printLine(context.stderr, `${grantOf(shown)}; it is not shown again`);
}

async function importKey(file: string, options: CreateOptions, context: CliContext): Promise<void> {
  const key = await readFile(file, 'utf8').catch((cause: unknown) => {
    const why = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
    throw new WavepoolError('INPUT_NOT_FOUND', `${file} (${why})`, { cause });
  });
  const record = await withKeys(options, context, (keys) =>
    keys.adopt(key.trim(), options.name, options.scope, options.tenant),
  );
  printLine(context.stderr, grantOf(apiKeyResource(record)));
}

function grantOf({ id, scopes, tenant }: Pick<ApiKeyResource, 'id' | 'scopes' | 'tenant'>): string {
  return `key ${id} may ${scopes.join(', ')}${tenant === null ? '' : ` for ${tenant}`}`;
}

async function list(options: PlaceOptions & { json?: true }, context: CliContext): Promise<void> {
  const records = await withKeys(options, context, (keys) => keys.list());
  const shown = records.map(apiKeyResource);
  if (options.json === true) {
    printLine(context.stdout, JSON.stringify(shown));
    return;
  }
  const rows = shown.map(({ id, name, scopes, tenant, createdAt }) => [
    id,
    scopes.join(','),
    tenant ?? '(all)',
    createdAt,
    name,
  ]);
  context.stdout.write(textTable([['ID', 'SCOPES', 'TENANT', 'CREATED', 'NAME'], ...rows]));
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

function withKeys<Result>(
  options: PlaceOptions,
  context: CliContext,
  use: (keys: ApiKeys) => Promise<Result>,
): Promise<Result> {
  return withConnection(options, context, (connection) => use(new ApiKeys(connection)));
}

function parseTenant(text: string): string {
  const tenant = ApiKeyTenant.safeParse(text).data;
  if (tenant !== undefined) return tenant;
  throw new InvalidArgumentError('Use the name of one tenant, at most 128 characters.');
}
