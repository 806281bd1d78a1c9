/**
 * The whole product on what it is meant for: two servers and three workers over Sentinels and a bucket transcribe what two
 * tenants send, while one of each part is killed. Every blow falls when so much of the work is done, not at some time.
 */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { WavepoolClient } from '../../src/client/wavepool-client.ts';
import { BatchSubmission } from '../../src/core/http/batch-api.ts';
import { WebhookMessage } from '../../src/core/http/webhook-message.ts';
import { closeConnection, openConnection } from '../../src/queue/redis/connection.ts';
import { ensure, type Scenario, type ScenarioOutcome } from './scenario.ts';
import { account, EndLog, type FleetAccount } from './support/fleet-account.ts';
import { BUCKET, type FleetOptions, FleetProcesses } from './support/fleet-processes.ts';
import { type FleetRecording, makeRecordings } from './support/fleet-recordings.ts';
import { jobTraces, type TracedJobs } from './support/fleet-traces.ts';

const MODEL = 'moonshine-tiny';
/** Of all files; the rest is the large tenant's. */
const SMALL_SHARE = 0.1;
/** Between two looks at what has ended. */
const LOOK_MS = 50;
const UPLOADS_AT_ONCE = 8;
/** How much has ended when the blows fall. */
const BLOWS = { worker: 0.1, redis: 0.3, objects: 0.6 } as const;
const TRACES = {
  large: 'aaaa0000aaaa0000aaaa0000aaaa0000',
  small: 'bbbb0000bbbb0000bbbb0000bbbb0000',
};
/** Inputs go to the queue a hundred at a time: so many of a batch are there, or none. */
const CHUNK = 100;

export interface FleetReport extends FleetAccount, TracedJobs {
  readonly seconds: number;
  /** From the blow to the next job that ended. */
  readonly failoverMs: number;
  readonly objectsAwayMs: number;
  /** From the blow to the end of the last job that ran anywhere then. */
  readonly workerLostMs: number;
  /** Items of the batch that the killed server had added. */
  readonly addedBeforeKill: number;
  /** Of the large tenant's jobs, how many were still to come when half of the small one's had ended. */
  readonly largeLeftAtHalfOfSmall: number;
  readonly webhooks: number;
  /** Deliveries beyond these: whoever is killed in the middle of one leaves it to others, and a failover forgets some. */
  readonly webhooksAgain: number;
}

export interface FleetSize extends FleetOptions {
  readonly files: number;
}

export async function runFleet(size: FleetSize): Promise<FleetReport> {
  const small = Math.round(size.files * SMALL_SHARE);
  const largeFiles = await makeRecordings('large', size.files - small);
  const smallFiles = await makeRecordings('small', small);
  await using fleet = await FleetProcesses.start(size);
  const connection = openConnection(fleet.redis.address, { role: 'patient', name: 'account' });
  try {
    const ends = new EndLog(connection, MODEL);
    return await new FleetRun(fleet, ends, size.files).run(largeFiles, smallFiles);
  } finally {
    closeConnection(connection);
  }
}

class FleetRun {
  readonly #fleet: FleetProcesses;
  readonly #ends: EndLog;
  readonly #files: number;

  constructor(fleet: FleetProcesses, ends: EndLog, files: number) {
    this.#fleet = fleet;
    this.#ends = ends;
    this.#files = files;
  }

  async run(
    largeFiles: readonly FleetRecording[],
    smallFiles: readonly FleetRecording[],
  ): Promise<FleetReport> {
    const { objects, receiver, servers } = this.#fleet;
    const client = new WavepoolClient({
      baseUrl: servers[1]?.url ?? '',
      headers: { traceparent: `00-${TRACES.small}-00000000bbbb0000-01` },
    });
    await inParallel(largeFiles, ({ name, content }) => objects.put(`recordings/${name}`, content));
    const inputs = await inParallel(smallFiles, async ({ name, content }) => {
      const { id } = await client.uploads.create(content, { name });
      return { uploadId: id, name };
    });

    const beganAt = performance.now();
    const large = await this.#submitLarge(largeFiles, client);
    const { id: smallId } = await client.batches.submit({
      tenant: 'small',
      model: MODEL,
      inputs,
      webhook: { url: receiver.url, events: ['finished', 'completed'] },
    });
    const worker = await this.#loseWorker();
    const failoverMs = await this.#loseRedis();
    const objectsAwayMs = await this.#loseObjects();
    await this.#until(() => this.#ends.jobs === this.#files);
    const batches = [large.id, smallId];
    for (const id of batches) await client.batches.waitFor(id, { intervalMs: LOOK_MS });
    const seconds = (performance.now() - beganAt) / 1_000;

    const told = await this.#webhooksOf(client, smallFiles.length, batches);
    const sources = { client, batches, wanted: this.#files, objects, ends: this.#ends };
    const accounted = await account(sources);
    const smallIds = new Set<string>();
    for await (const { id } of client.batches.items(smallId, { pageSize: 200 })) smallIds.add(id);
    return {
      ...accounted,
      ...jobTraces(await this.#fleet.finish()),
      ...told,
      seconds,
      failoverMs,
      objectsAwayMs,
      workerLostMs: this.#ends.lastOf(worker.running) - worker.atMs,
      addedBeforeKill: large.addedBeforeKill,
      largeLeftAtHalfOfSmall: this.#largeLeft(smallIds),
    };
  }

  /** The server dies half-way through the request; the same one goes on with the batch at the other. */
  async #submitLarge(files: readonly FleetRecording[], other: WavepoolClient) {
    const { receiver, servers } = this.#fleet;
    const first = servers[0];
    if (first === undefined) throw new Error('there are two servers');
    const settings = { tenant: 'large', model: MODEL, webhook: { url: receiver.url } };
    const lines = [
      JSON.stringify({ batch: settings }),
      ...files.map(({ name }) => JSON.stringify({ object: `s3://${BUCKET}/recordings/${name}` })),
    ].map((line) => `${line}\n`);
    const half = Math.floor(lines.length / 2);
    const seen = Math.floor((half - 1) / CHUNK) * CHUNK;
    let goOn: () => void = () => undefined;
    const gone = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const firstHalf = async function* () {
      yield lines.slice(0, half).join('');
      await gone;
    };
    const broken = post(`${first.url}/v1/batches`, firstHalf()).then(
      () => false,
      () => true,
    );
    const addedBeforeKill = await until(async () => {
      for await (const { tenant, counts } of other.batches.list({ tenant: 'large' })) {
        if (tenant === 'large' && counts.total >= seen) return counts.total;
      }
      return undefined;
    });
    first.process.kill('SIGKILL');
    await first.process.ended;
    goOn();
    ensure(await broken, 'a request survived its server');
    const response = await post(`${servers[1]?.url}/v1/batches`, lines);
    const { id, counts } = BatchSubmission.parse(await response.json());
    ensure(counts.total === files.length, `the batch has ${counts.total} of ${files.length} items`);
    return { id, addedBeforeKill };
  }

  /** @returns what any worker had at that moment */
  async #loseWorker(): Promise<{ readonly running: readonly string[]; readonly atMs: number }> {
    await this.#whenEnded(BLOWS.worker);
    const running = await this.#ends.running();
    ensure(running.length > 0, 'no worker had a job');
    const atMs = Date.now();
    await this.#fleet.killWorker(0);
    return { running, atMs };
  }

  /** A Sentinel goes first: two of three are enough to agree on the primary's end. */
  async #loseRedis(): Promise<number> {
    await this.#whenEnded(BLOWS.redis);
    const { primary, sentinels } = this.#fleet.redis;
    const [sentinel] = sentinels;
    if (sentinel === undefined) throw new Error('there are three Sentinels');
    for (const { process: child } of [sentinel, primary]) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    const atMs = Date.now();
    await this.#ends.forgetWhatWasLost(atMs);
    return this.#nextEndAfter(atMs);
  }

  async #loseObjects(): Promise<number> {
    await this.#whenEnded(BLOWS.objects);
    await this.#fleet.objects.kill();
    const atMs = Date.now();
    await this.#fleet.objects.restart();
    return this.#nextEndAfter(atMs);
  }

  async #nextEndAfter(atMs: number): Promise<number> {
    await this.#until(() => this.#ends.nextAfter(atMs) !== undefined);
    return this.#ends.nextAfter(atMs) ?? Number.NaN;
  }

  /** The blow that follows is to fall while there is work. */
  async #whenEnded(share: number): Promise<void> {
    await this.#until(() => this.#ends.jobs >= share * this.#files);
    ensure(this.#ends.jobs < this.#files, 'all work was done before the blow');
  }

  async #until(isSo: () => boolean): Promise<void> {
    await until(async () => {
      await this.#ends.read();
      return isSo() || undefined;
    });
  }

  #largeLeft(smallIds: ReadonlySet<string>): number {
    const half = smallIds.size / 2;
    const smallEnded = new Set<string>();
    const largeEnded = new Set<string>();
    for (const { jobId } of this.#ends.all) {
      (smallIds.has(jobId) ? smallEnded : largeEnded).add(jobId);
      if (smallEnded.size >= half) break;
    }
    return this.#files - smallIds.size - largeEnded.size;
  }

  /** One for each batch, one for each job of the small tenant; all of them signed. */
  async #webhooksOf(client: WavepoolClient, jobs: number, batches: readonly string[]) {
    const { receiver } = this.#fleet;
    const [secret] = (await client.webhooks.secret()).secrets;
    if (secret === undefined) throw new Error('there is a secret');
    const verifier = new Webhook(secret.secret);
    const wanted = jobs + batches.length;
    const heard = () => {
      const messages = receiver.received.map(({ body, headers }) =>
        WebhookMessage.parse(verifier.verify(body, { ...headers })),
      );
      return new Set(messages.map(({ type, data }) => `${type} ${data.id}`));
    };
    await until(async () => {
      await receiver.first(wanted);
      return heard().size >= wanted || undefined;
    });
    ensure(heard().size === wanted, `${heard().size} ends were told in place of ${wanted}`);
    for (const id of batches) ensure(heard().has(`batch.finished ${id}`), `${id} was not told`);
    return { webhooks: wanted, webhooksAgain: receiver.received.length - wanted };
  }
}

/** A body of lines that comes as it comes. */
async function post(
  url: string,
  lines: Iterable<string> | AsyncIterable<string>,
): Promise<Response> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-ndjson',
      'idempotency-key': 'large-batch',
      traceparent: `00-${TRACES.large}-00000000aaaa0000-01`,
    },
    body: ReadableStream.from(lines).pipeThrough(new TextEncoderStream()),
    duplex: 'half',
  });
  ensure(response.ok, `${url}: ${response.status}`);
  return response;
}

async function inParallel<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const left = items.entries();
  const take = async (): Promise<void> => {
    for (const [at, item] of left) results[at] = await work(item);
  };
  await Promise.all(Array.from({ length: UPLOADS_AT_ONCE }, take));
  return results;
}

/** What is not undefined, when there is something. */
async function until<Result>(look: () => Promise<Result | undefined>): Promise<Result> {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await pause(LOOK_MS);
  }
}

/** @throws {ScenarioError} where the fleet did not do what it is for */
export function ensureProven(report: FleetReport, files: number): void {
  const { lost, doubled, findings, jobs } = report;
  ensure(lost === 0 && doubled === 0, findings.slice(0, 5).join('; '));
  ensure(jobs === files, `${jobs} jobs in place of ${files}`);
  const { largeLeftAtHalfOfSmall: left } = report;
  ensure(
    left > files / 3,
    `${left} jobs of the large tenant were left when half of the small were`,
  );
  const { seen, whole, submitted } = report;
  ensure(whole > files / 2, `${whole} of ${files} jobs (${seen} seen) can be followed`);
  for (const trace of Object.values(TRACES)) ensure(submitted.includes(trace), `${trace}: unseen`);
}

const BATCH = 8;
const LOCK_SECONDS = 10;

export const fleet: Scenario = {
  name: 'fleet',
  fault: 'one of each part of a fleet is killed',
  run: async ({ jobs }): Promise<ScenarioOutcome> => {
    const report = await runFleet({ files: jobs, batch: BATCH, lockSeconds: LOCK_SECONDS });
    process.stdout.write(`fleet: ${JSON.stringify(report)}\n`);
    ensureProven(report, jobs);
    const { completed, lost, doubled, failoverMs, objectsAwayMs, workerLostMs } = report;
    const recoveryMs = Math.max(failoverMs, objectsAwayMs, workerLostMs);
    return { times: 1, jobs, completed, failed: 0, lost, doubled, recoveryMs };
  },
};

export const FLEET_SCENARIOS = [fleet];
