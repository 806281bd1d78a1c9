/**
 * A Redis Cluster, as one connection to the node that has our keys.
 *
 * All keys of ours carry one hash tag: BullMQ's scripts need a queue's keys in one slot, and a batch joins two queues. A
 * connection therefore needs one node, the primary of that slot, and looks for it each time it connects. What it is then
 * is an ordinary connection: it blocks, subscribes, runs transactions and reconnects like any other.
 */
import { connect as connectTcp } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis';
import type { RedisHost } from './redis-url.ts';

/** What stands for `wavepool` at the beginning of all keys. */
export const CLUSTER_PREFIX = '{wavepool}';
/** That of every key with this prefix: `CLUSTER KEYSLOT {wavepool}`. */
export const CLUSTER_SLOT = 3_464;

const ASK_TIMEOUT_MS = 2_000;

interface SlotRange {
  readonly first: number;
  readonly last: number;
  /** Its primary comes first. */
  readonly nodes: readonly RedisHost[];
}

type Connector = NonNullable<RedisOptions['Connector']>;
type ErrorListener = Parameters<AbstractConnector['connect']>[0];
type Stream = Awaited<ReturnType<AbstractConnector['connect']>>;

abstract class ClusterConnector extends AbstractConnector {
  /** Those of the address, and those that the Cluster told of. */
  readonly #hosts: RedisHost[];
  /** The connection's own: `retryStrategy` is replaced when it is closed. */
  readonly #options: RedisOptions;

  constructor(hosts: readonly RedisHost[], options: RedisOptions) {
    super(options.disconnectTimeout ?? ASK_TIMEOUT_MS);
    this.#hosts = [...hosts];
    this.#options = options;
  }

  /** What `INFO` says. A primary that has become a replica is left at once. */
  override check(info: { readonly role?: string }): boolean {
    return info.role === undefined || info.role === 'master';
  }

  /** Goes on until a primary is found: ioredis takes a connector that rejects for closed for good. */
  override async connect(onError: ErrorListener): Promise<Stream> {
    this.connecting = true;
    for (let attempt = 1; ; attempt += 1) {
      const found = await this.#findPrimary();
      if (!this.connecting) throw new Error('Connection is closed.');
      if (!(found instanceof Error)) return this.#open(found);
      onError('error', found);
      const delayMs = this.#options.retryStrategy?.(attempt);
      if (typeof delayMs !== 'number') throw found;
      await sleep(delayMs);
    }
  }

  #open({ host, port }: RedisHost): Stream {
    const { tls } = this.#options;
    const stream = tls ? connectTls({ ...tls, host, port }) : connectTcp({ host, port });
    stream.once('error', (error) => {
      this.firstError = error;
    });
    this.stream = stream;
    return stream;
  }

  async #findPrimary(): Promise<RedisHost | Error> {
    let cause = 'no node was given';
    for (const host of [...this.#hosts]) {
      if (!this.connecting) break;
      const answer = await this.#ask(host).catch(toError);
      if (!(answer instanceof Error)) return answer;
      // One that does not know is asked last the next time.
      this.#hosts.push(...this.#hosts.splice(this.#hosts.indexOf(host), 1));
      cause = `${host.host}:${host.port}: ${answer.message}`;
    }
    return new Error(`no node of the Cluster tells where our keys are; ${cause}`);
  }

  async #ask({ host, port }: RedisHost): Promise<RedisHost> {
    const { username, password, tls } = this.#options;
    const node = new Redis({
      host,
      port,
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
      ...(tls === undefined ? {} : { tls }),
      lazyConnect: true,
      enableReadyCheck: false,
      connectTimeout: ASK_TIMEOUT_MS,
      commandTimeout: ASK_TIMEOUT_MS,
      retryStrategy: () => null,
      maxRetriesPerRequest: 0,
    });
    let cause: Error | undefined;
    node.on('error', (error: Error) => {
      cause = error;
    });
    try {
      await node.connect();
      const ranges = parseSlots(await node.cluster('SLOTS'), host);
      for (const { nodes } of ranges) this.#remember(nodes);
      const range = ranges.find(({ first, last }) => first <= CLUSTER_SLOT && CLUSTER_SLOT <= last);
      const [primary] = range?.nodes ?? [];
      if (primary === undefined) throw new Error('CLUSTERDOWN Hash slot not served');
      return primary;
    } catch (error) {
      throw cause ?? error;
    } finally {
      node.disconnect();
    }
  }

  #remember(nodes: readonly RedisHost[]): void {
    for (const node of nodes) {
      const isKnown = ({ host, port }: RedisHost) => host === node.host && port === node.port;
      if (!this.#hosts.some(isKnown)) this.#hosts.push(node);
    }
  }
}

/**
 * What `CLUSTER SLOTS` answers.
 * @param asked the host that answered: a node that does not know its own address is there
 */
function parseSlots(reply: unknown, asked: string): SlotRange[] {
  return list(reply).map((range) => {
    const [first, last, ...nodes] = list(range);
    return {
      first: Number(first),
      last: Number(last),
      nodes: nodes.map((node) => {
        const [host, port] = list(node);
        return { host: String(host ?? '') || asked, port: Number(port) };
      }),
    };
  });
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** For the `Connector` of a connection. */
export function connectorTo(hosts: readonly RedisHost[]): Connector {
  return class extends ClusterConnector {
    constructor(options: unknown) {
      // ioredis makes its connector with the connection's own options.
      super(hosts, options as RedisOptions);
    }
  };
}

/** Whether the connection is to a Cluster, where keys have another beginning. */
export function isOnCluster({ options }: Redis): boolean {
  return options.Connector?.prototype instanceof ClusterConnector;
}
