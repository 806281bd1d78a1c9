/**
 * One end of the way that live audio takes between servers and workers: Redis' publish and subscribe. Whatever machines
 * they are on, both reach Redis; nothing that is said there is stored, replicated or written to its log; and it is lost,
 * which is noticed, when nobody listens. What is under way is bounded by whoever sends.
 */
import type { Redis } from 'ioredis';
import { WavepoolError } from '../../core/errors.ts';
import { decodeLiveFrame, encodeLiveFrame, type LiveFrame } from '../../core/live/live-wire.ts';
import {
  closeConnection,
  connect,
  openConnection,
  type RedisAddress,
  toRedisError,
} from '../redis/connection.ts';
import { liveChannel } from '../redis/queue-names.ts';

export interface LiveChannelOptions {
  readonly address: RedisAddress;
  /** Whose end it is. */
  readonly listener: string;
  readonly onFrame: (frame: LiveFrame) => void;
  /** What came meanwhile was not heard. */
  readonly onLost: () => void;
}

export class LiveChannel {
  readonly name: string;
  readonly #subscriber: Redis;
  readonly #publisher: Redis;

  private constructor(name: string, subscriber: Redis, publisher: Redis) {
    this.name = name;
    this.#subscriber = subscriber;
    this.#publisher = publisher;
  }

  /**
   * Resolves when everything is heard that is sent from now on.
   * @throws {WavepoolError} REDIS_UNAVAILABLE
   */
  static async open(options: LiveChannelOptions): Promise<LiveChannel> {
    const { address, listener, onFrame, onLost } = options;
    const subscriber = openConnection(address, { role: 'patient', name: 'live-ear' });
    const name = liveChannel(subscriber, listener);
    const publisher = openConnection(address, { role: 'fail-fast', name: 'live-mouth' });
    subscriber.on('messageBuffer', (_channel: Buffer, message: Buffer) => {
      const frame = decodeLiveFrame(message);
      if (frame !== undefined) onFrame(frame);
    });
    subscriber.on('close', onLost);
    try {
      await Promise.all([connect(subscriber, address), connect(publisher, address)]);
      await subscriber.subscribe(name);
    } catch (error) {
      closeConnection(subscriber);
      closeConnection(publisher);
      throw toRedisError(error);
    }
    return new LiveChannel(name, subscriber, publisher);
  }

  /**
   * In the order of the calls.
   * @throws {WavepoolError} WORKER_GONE when nobody listens at the other end; REDIS_UNAVAILABLE
   */
  async send(to: string, frame: LiveFrame): Promise<void> {
    let heardBy: number;
    try {
      heardBy = await this.#publisher.publish(to, encodeLiveFrame(frame));
    } catch (error) {
      throw toRedisError(error);
    }
    // In a cluster only those are counted who listen at the same node: there, silence tells.
    if (heardBy === 0 && !this.#publisher.isCluster) {
      throw new WavepoolError('WORKER_GONE', 'nobody listens at the other end');
    }
  }

  /** Idempotent. */
  close(): void {
    this.#subscriber.removeAllListeners('close');
    closeConnection(this.#subscriber);
    closeConnection(this.#publisher);
  }
}
