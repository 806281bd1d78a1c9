/** `wavepool serve`: the HTTP interface, with workers of its own when asked for. */

import { once } from 'node:events';
import { realpath, stat } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Config } from '../../core/config.ts';
import { WavepoolError } from '../../core/errors.ts';
import { createLogger } from '../../core/logger.ts';
import { packageVersion } from '../../core/package-version.ts';
import { openServices } from '../../http/open-services.ts';
import { startServer } from '../../http/server.ts';
import { DEFAULT_SETTINGS, type HttpSettings } from '../../http/settings.ts';
import { keepUploadsSwept } from '../../http/submit/upload-sweeper.ts';
import { openTracing } from '../../tracing/open-tracing.ts';
import { Housekeeping } from '../../worker/housekeeping/housekeeping.ts';
import { RedisAccess } from '../access/redis-access.ts';
import { addCapacityOptions, warnUnvalidated } from '../capacity/capacity-options.ts';
import type { Fleet } from '../fleet/fleet.ts';
import { addLiveOption, addResidencyOptions } from '../fleet/residency-options.ts';
import { logLevelOf, type ServingOptions, startFleet } from '../fleet/start-fleet.ts';
import {
  addObjectRootOption,
  addPlaceOptions,
  addStorageOption,
  collect,
  DEFAULT_MODEL,
  modelsOf,
  type PlaceOptions,
  parseBytes,
  parseCount,
  parseDuration,
  parseWhole,
  placesOf,
  resultsFolder,
  uploadsFolder,
} from '../options/options.ts';
import { CATALOGUE_TASKS, DEFAULT_MODELS } from '../options/task-options.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { isInterruption, watchInterrupts } from '../terminal/interrupts.ts';

const DRAIN_MS = 600_000;
const MAX_PORT = 65_535;

interface ServeOptions extends PlaceOptions, ServingOptions {
  readonly host: string;
  readonly port: number;
  readonly withWorker?: true;
  readonly inputRoot: string[];
  readonly modelAlias: Readonly<Record<string, string>>;
  readonly allowOrigin: string[];
  readonly allowHost: string[];
  readonly maxUpload: number;
  readonly maxQueued: number;
  readonly uploadDays: number;
  readonly livePerKey: number;
  readonly liveIdle: number;
  readonly liveMax: number;
  readonly queueActions?: true;
}

const HELP = `
Prints its address on stdout when it takes requests; /docs there describes them. On loopback no key is asked for until one
exists; any other --host needs a key first (\`wavepool keys create\`). Clients may name files of this machine by path only
inside an --input-root.

SIGTERM or Ctrl-C lets requests and running jobs finish; a second one ends at once and gives running jobs back.

Exit codes: 0 stopped as asked, 2 usage, 3 this machine or its services, 130 stopped at once.`;

export function addServeCommand(program: Command, context: CliContext): void {
  const { host, port, maxUploadBytes, maxQueued, uploadRetentionMs } = DEFAULT_SETTINGS;
  const { livePerKey, liveIdleMs, liveMaxMs } = DEFAULT_SETTINGS;
  const command = program
    .command('serve')
    .description('serve the HTTP interface')
    .option('--host <address>', 'where to listen', host)
    .addOption(
      new Option('--port <n>', 'where to listen; 0 takes a free one')
        .argParser(parseWhole(0, MAX_PORT))
        .default(port),
    )
    .option('--with-worker', 'also run workers for --model here')
    .addOption(
      new Option(
        '--model <id>',
        'for --with-worker; the first one is for requests that name none (repeatable)',
      )
        .argParser(collect)
        .default([], DEFAULT_MODEL),
    )
    .option(
      '--input-root <dir>',
      'allow inputs by path inside this folder (repeatable)',
      collect,
      [],
    )
    .addOption(
      new Option('--max-upload <size>', 'largest upload, such as 500M or 4G')
        .argParser(parseBytes)
        .default(maxUploadBytes, '2G'),
    )
    .addOption(
      new Option('--max-queued <n>', 'jobs that may wait in one queue')
        .argParser(parseCount(10_000_000))
        .default(maxQueued),
    )
    .addOption(
      new Option('--upload-days <n>', 'keep uploads so long after their last use')
        .argParser(parseCount(3_650))
        .default(uploadRetentionMs / DAY_MS),
    )
    .addOption(
      new Option('--live-per-key <n>', 'live streams of one API key, or one tenant, at once')
        .argParser(parseCount(10_000))
        .default(livePerKey),
    )
    .addOption(
      new Option('--live-idle <time>', 'a live stream without audio for so long ends; 0 never')
        .argParser(parseDuration)
        .default(liveIdleMs, '30s'),
    )
    .addOption(
      new Option('--live-max <time>', 'no live stream lasts longer; 0 has no end')
        .argParser(parseDuration)
        .default(liveMaxMs, '4h'),
    )
    .option('--queue-actions', 'let the scope manage act on queues at /dashboard/queues')
    .addOption(
      new Option(
        '--model-alias <name=id>',
        'another name of a model, for clients that insist on theirs (repeatable)',
      )
        .argParser(collectAlias)
        .default({}, 'none'),
    )
    .option('--allow-origin <origin>', 'let pages of this origin call (repeatable)', collect, [])
    .option(
      '--allow-host <name>',
      'a name of this machine besides localhost (repeatable)',
      collect,
      [],
    );
  addStorageOption(command);
  addObjectRootOption(command);
  addWorkerOptions(command);
  addPlaceOptions(command)
    .option('--quiet', 'print failures only')
    .addHelpText('after', HELP)
    .action(async (options: ServeOptions) => {
      await serve(options, context);
    });
}

/** They would change nothing where no workers run, and their user would wait for work that nobody does. */
function addWorkerOptions(command: Command): void {
  const others = new Set(command.options);
  addCapacityOptions(command);
  addResidencyOptions(command);
  addLiveOption(command);
  const options = command.options.filter((option) => !others.has(option));
  command.hook('preAction', (ran) => {
    if (ran.getOptionValue('withWorker') === true) return;
    const typed = options.find((each) => ran.getOptionValueSource(each.attributeName()) === 'cli');
    if (typed === undefined) return;
    ran.error(
      `error: option '${typed.flags}' is for workers: add --with-worker, or use it with \`wavepool worker\``,
    );
  });
}

async function serve(options: ServeOptions, context: CliContext): Promise<void> {
  const config = placesOf(context.config, options);
  const settings = await settingsOf(options, config);
  const closing = new AbortController();
  const say = (line: string): void => {
    if (options.quiet !== true) printLine(context.stderr, line);
  };
  let fleet: Fleet | undefined;
  using watch = watchInterrupts(context, {
    onFirst: () => say('finishing requests and running jobs, press again to end now'),
    onSecond: async () => fleet?.kill(),
  });
  try {
    if (options.withWorker) warnUnvalidated(options, context);
    const redisLogger = createLogger(logLevelOf(config, options), 'redis');
    await using redis = await RedisAccess.open(config, watch.signal, redisLogger);
    await using tracing = await openTracing(config.tracing, 'server');
    const services = await openServices({
      address: redis.address,
      models: servedModels(modelsOf(options.model)),
      resultsDir: resultsFolder(config),
      uploadsDir: uploadsFolder(config),
      s3: config.s3,
      settings,
      tracing,
      webhookSecrets: config.webhooks.secrets,
      version: packageVersion(),
      logger: createLogger(logLevelOf(config, options), 'server'),
      closing: closing.signal,
    });
    await using queues = services.queues;
    await using server = await startServer(services);
    const { signal } = watch;
    const maxUrlBytes = options.maxUpload;
    if (options.withWorker)
      fleet = await startFleet(options, { config, context, signal, maxUrlBytes });
    await using workers = fleet;
    await using _housekeeping = await Housekeeping.start({
      address: redis.address,
      webhooks: config.webhooks,
      logger: createLogger(logLevelOf(config, options), 'housekeeping'),
    });
    await queues.openAll();
    keepUploadsSwept(services);
    printLine(context.stdout, server.url);
    if (!watch.signal.aborted) await once(watch.signal, 'abort');
    closing.abort();
    await Promise.all([server.close(), workers?.drain(DRAIN_MS)]);
    await queues.close();
  } catch (error) {
    if (!isInterruption(error, watch)) throw error;
  }
}

/** Jobs for these are taken before a worker was ever started; for others once there was one. Each has a queue from then on. */
function servedModels(models: readonly string[]): string[] {
  return [...new Set([...models, ...Object.values(DEFAULT_MODELS)])];
}

async function settingsOf(options: ServeOptions, { s3 }: Config): Promise<HttpSettings> {
  return {
    ...DEFAULT_SETTINGS,
    host: options.host,
    port: options.port,
    defaultModel: options.model[0] ?? DEFAULT_MODEL,
    modelTasks: CATALOGUE_TASKS,
    inputRoots: await Promise.all(options.inputRoot.map(realFolder)),
    objectRoots: s3.inputRoots,
    maxUploadBytes: options.maxUpload,
    maxQueued: options.maxQueued,
    uploadRetentionMs: options.uploadDays * DAY_MS,
    livePerKey: options.livePerKey,
    liveIdleMs: options.liveIdle,
    liveMaxMs: options.liveMax,
    modelAliases: options.modelAlias,
    allowedOrigins: options.allowOrigin,
    allowedHosts: options.allowHost,
    queuesReadOnly: options.queueActions !== true,
  };
}

/** @throws {WavepoolError} INPUT_NOT_FOUND */
async function realFolder(path: string): Promise<string> {
  const real = await realpath(path).catch(() => undefined);
  if (real !== undefined && (await stat(real)).isDirectory()) return real;
  throw new WavepoolError('INPUT_NOT_FOUND', `--input-root ${path} is not a folder`);
}

const DAY_MS = 86_400_000;

function collectAlias(
  text: string,
  before: Readonly<Record<string, string>>,
): Record<string, string> {
  const [name = '', id = '', ...more] = text.split('=');
  if (name !== '' && id !== '' && more.length === 0) return { ...before, [name]: id };
  throw new InvalidArgumentError('Use NAME=MODEL, such as whisper-1=moonshine-tiny.');
}
