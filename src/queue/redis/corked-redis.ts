/**
 * A connection whose commands of one turn of the event loop leave together. ioredis makes a system call for each: that costs
 * a busy worker as much as all its own work for a job, and the server a wake-up, a read and a write for each command.
 */
import { Redis } from 'ioredis';

export class CorkedRedis extends Redis {
  /** The stream whose commands are kept until the turn ends. */
  #corked: Redis['stream'] | undefined;

  override sendCommand(...args: Parameters<Redis['sendCommand']>): unknown {
    this.#cork();
    return super.sendCommand(...args);
  }

  #cork(): void {
    const { stream } = this;
    // There is none before it has first connected, whatever the type says; a new one comes with each connection.
    if (stream === undefined || stream === this.#corked) return;
    this.#corked = stream;
    stream.cork();
    // After all promises that the turn has settled.
    process.nextTick(() => {
      if (this.#corked === stream) this.#corked = undefined;
      stream.uncork();
    });
  }
}
