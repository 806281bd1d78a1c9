/**
 * The live streams that HTTP servers send to a worker over Redis. Each holds a slot of the detector in streaming mode from
 * start to end; its speech is recognized in the batches of the worker's jobs.
 */
import { WavepoolError } from '../../core/errors.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { type LiveFrame, LiveOpening } from '../../core/live/live-wire.ts';
import type { Logger } from '../../core/logger.ts';
import { LiveChannel } from '../../queue/live/live-channel.ts';
import type { RedisAddress } from '../../queue/redis/connection.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { RemoteStream } from './remote-stream.ts';

export interface RemoteStreamsOptions {
  readonly address: RedisAddress;
  readonly workerId: string;
  readonly runtime: Runtime;
  /** In streaming mode. There can be as many streams as it has slots. */
  readonly detector: ModelEntry;
  readonly logger: Logger;
  /** Called when a stream has begun or ended. */
  readonly onChange: () => void;
}

export class RemoteStreams {
  readonly #options: RemoteStreamsOptions;
  readonly #streams = new Map<string, RemoteStream>();
  #channel: LiveChannel | undefined;
  #draining = false;

  private constructor(options: RemoteStreamsOptions) {
    this.#options = options;
  }

  /** @throws {WavepoolError} REDIS_UNAVAILABLE */
  static async open(options: RemoteStreamsOptions): Promise<RemoteStreams> {
    const remote = new RemoteStreams(options);
    remote.#channel = await LiveChannel.open({
      address: options.address,
      listener: options.workerId,
      onFrame: (frame) => remote.#receive(frame),
      onLost: () => remote.#endAll(new WavepoolError('REDIS_UNAVAILABLE', 'audio was not heard')),
    });
    return remote;
  }

  /** Takes no more streams; resolves when those that are open have ended. */
  async drain(): Promise<void> {
    this.#draining = true;
    await Promise.all([...this.#streams.values()].map(({ closed }) => closed));
  }

  /** Ends all open streams. */
  async close(): Promise<void> {
    this.#draining = true;
    this.#endAll(new WavepoolError('SHUTTING_DOWN', 'the worker is ending'));
    await this.drain();
    this.#channel?.close();
  }

  #endAll(error: WavepoolError): void {
    for (const stream of [...this.#streams.values()]) stream.fail(error);
  }

  #receive(frame: LiveFrame): void {
    const stream = this.#streams.get(frame.stream);
    if (stream !== undefined) stream.receive(frame);
    else if (frame.kind === 'open') this.#begin(frame);
  }

  #begin(frame: LiveFrame): void {
    const { runtime, detector, logger, onChange } = this.#options;
    const text = Buffer.from(frame.payload).toString('utf8');
    const { data: opening } = LiveOpening.safeParse(parseJson(text));
    const channel = this.#channel;
    if (channel === undefined) return;
    if (opening === undefined) {
      logger.warn('a server of another version offered live audio');
      return;
    }
    const id = frame.stream;
    const stream = new RemoteStream({ id, opening, channel, runtime, detector });
    stream.receive(frame);
    const refusal = this.#refusal();
    if (refusal !== undefined) {
      stream.refuse(refusal);
      return;
    }
    this.#streams.set(id, stream);
    // It never rejects.
    void stream.closed.then(() => {
      this.#streams.delete(id);
      onChange();
    });
    void stream.run();
    onChange();
  }

  /** Why no more streams are taken. A server that is refused asks another worker, so nobody waits here. */
  #refusal(): WavepoolError | undefined {
    if (this.#draining) return new WavepoolError('SHUTTING_DOWN', 'the worker is ending');
    const { slots } = this.#options.detector.configuration;
    if (this.#streams.size < slots) return undefined;
    return new WavepoolError('BUSY_TIMEOUT', `${slots} live streams are open`);
  }
}
