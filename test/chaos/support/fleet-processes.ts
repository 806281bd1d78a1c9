/**
 * A fleet on this machine, every part of it a process of its own: Redis with two replicas, three Sentinels, an S3 server,
 * two servers, three workers with data directories of their own, a collector of spans. Only the receiver of webhooks is here.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { compileProgram } from '../../support/compile.ts';
import { signalProcess, workersOf } from '../../support/process-table.ts';
import { temporaryFolder } from '../../support/redis.ts';
import { type SentinelDeployment, startSentinels } from '../../support/redis-processes.ts';
import { S3_ENVIRONMENT } from '../../support/s3.ts';
import { SeaweedServer } from '../../support/seaweed.ts';
import type { CollectedSpan } from '../../support/span-collector-program.ts';
import type { WavepoolProcess } from '../../support/wavepool-process.ts';
import { WebhookReceiver } from '../../support/webhook-receiver.ts';
import { Workplace } from '../../support/workplace.ts';

export const BUCKET = 'speech';
const SERVERS = 2;
const WORKERS = 3;
/** What the copies of one write need at least: without a replica in step, a primary takes none. */
const IN_STEP = ['min-replicas-to-write 1', 'min-replicas-max-lag 10'];

export interface FleetOptions {
  readonly batch: number;
  /** After so long the jobs of a lost worker are others'. */
  readonly lockSeconds: number;
}

export interface FleetServer {
  readonly url: string;
  readonly process: WavepoolProcess;
}

export class FleetProcesses implements AsyncDisposable {
  readonly redis: SentinelDeployment;
  readonly objects: SeaweedServer;
  readonly receiver: WebhookReceiver;
  readonly #collector: SpanCollector;
  readonly #owned: AsyncDisposable[];
  #servers: readonly FleetServer[] = [];
  #workers: readonly WavepoolProcess[] = [];

  private constructor(
    parts: Pick<FleetProcesses, 'redis' | 'objects' | 'receiver'>,
    collector: SpanCollector,
    owned: AsyncDisposable[],
  ) {
    this.redis = parts.redis;
    this.objects = parts.objects;
    this.receiver = parts.receiver;
    this.#collector = collector;
    this.#owned = owned;
  }

  /** Resolves when servers take requests and workers take jobs. */
  static async start(options: FleetOptions): Promise<FleetProcesses> {
    const owned: AsyncDisposable[] = [];
    const own = async <Part extends AsyncDisposable>(starting: Promise<Part>): Promise<Part> => {
      const part = await starting;
      owned.push(part);
      return part;
    };
    try {
      const folder = await own(temporaryFolder());
      const [redis, objects, receiver, collector] = await Promise.all([
        own(startSentinels({ replicas: 2, settings: IN_STEP })),
        own(SeaweedServer.start(folder.path, BUCKET)),
        own(WebhookReceiver.start(204)),
        own(SpanCollector.start()),
      ]);
      const fleet = new FleetProcesses({ redis, objects, receiver }, collector, owned);
      await fleet.#startCommands(options);
      return fleet;
    } catch (error) {
      await disposeAll(owned);
      throw error;
    }
  }

  get servers(): readonly FleetServer[] {
    return this.#servers;
  }

  get workers(): readonly WavepoolProcess[] {
    return this.#workers;
  }

  /** The whole of it, as when its machine is gone: nobody hands its jobs back. */
  async killWorker(at: number): Promise<void> {
    const worker = this.#workers[at];
    if (worker === undefined) throw new RangeError(`there is no worker ${at}`);
    const processes = await workersOf(worker.pid);
    for (const pid of [worker.pid, ...processes]) signalProcess(pid, 'SIGKILL');
    await worker.ended;
  }

  /** Ends what still runs, as it should end, and returns every span that was sent. */
  async finish(): Promise<CollectedSpan[]> {
    for (const command of this.#commands()) command.kill('SIGTERM');
    await Promise.all(this.#commands().map(({ ended }) => ended));
    return this.#collector.spans();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await disposeAll(this.#owned);
  }

  #commands(): WavepoolProcess[] {
    return [...this.#servers.map((server) => server.process), ...this.#workers];
  }

  async #startCommands({ batch, lockSeconds }: FleetOptions): Promise<void> {
    const { address } = this.redis;
    const url = address.kind === 'url' ? address.url : '';
    const shared = ['--redis', url, '--storage', `s3://${BUCKET}/wavepool`];
    shared.push('--object-root', `s3://${BUCKET}/recordings`);
    const env = {
      ...S3_ENVIRONMENT,
      WAVEPOOL_S3_ENDPOINT: this.objects.endpoint,
      WAVEPOOL_WEBHOOK_NETWORKS: '127.0.0.0/8',
      OTEL_EXPORTER_OTLP_ENDPOINT: this.#collector.endpoint,
    };
    const start = async (name: 'serve' | 'worker', args: readonly string[]) => {
      const place = await Workplace.create();
      this.#owned.push(place);
      return place.command(name, [...shared, ...args], { env });
    };
    const capacity = [
      '--workers',
      '1',
      '--batch',
      `${batch}`,
      '--lock-duration',
      `${lockSeconds}s`,
    ];
    const servers = Array.from({ length: SERVERS }, () => start('serve', ['--port', '0']));
    const workers = Array.from({ length: WORKERS }, () => start('worker', capacity));
    const [serving, working] = await Promise.all([Promise.all(servers), Promise.all(workers)]);
    this.#workers = working;
    this.#servers = await Promise.all(
      serving.map(async (process) => ({ process, url: await process.before(process.firstLine()) })),
    );
    await Promise.all(working.map((worker) => worker.before(worker.said('serving '))));
  }
}

/** The last one first: it may need those before it. */
async function disposeAll(owned: readonly AsyncDisposable[]): Promise<void> {
  for (const part of owned.toReversed()) await part[Symbol.asyncDispose]();
}

const COLLECTOR = join(import.meta.dirname, '../../support/span-collector-program.ts');

class SpanCollector implements AsyncDisposable {
  readonly endpoint: string;
  readonly #child: ChildProcess;
  readonly #program: AsyncDisposable;

  private constructor(endpoint: string, child: ChildProcess, program: AsyncDisposable) {
    this.endpoint = endpoint;
    this.#child = child;
    this.#program = program;
  }

  static async start(): Promise<SpanCollector> {
    const program = await compileProgram(COLLECTOR);
    const child = fork(program.path);
    const [endpoint] = await once(child, 'message');
    return new SpanCollector(String(endpoint), child, program);
  }

  async spans(): Promise<CollectedSpan[]> {
    const told = once(this.#child, 'message');
    this.#child.send('tell');
    return (await told)[0]; // See the program.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.kill('SIGKILL')) {
      await once(this.#child, 'exit');
    }
    await this.#program[Symbol.asyncDispose]();
  }
}
