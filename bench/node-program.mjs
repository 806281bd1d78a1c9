/** A child process of Node.js that answers messages with messages, one question at a time. */
import { fork } from 'node:child_process';
import { once } from 'node:events';

export class NodeProgram {
  #child;
  #waiting = new Map();

  constructor(program, { args = [], stdout = 'ignore' } = {}) {
    const stdio = ['ignore', stdout, 'inherit', 'ipc'];
    this.#child = fork(new URL(program, import.meta.url), args, { stdio });
    this.#child.on('message', (message) => this.#waiting.get(message.type)?.resolve(message));
    this.#child.once('exit', (code, signal) => {
      const error = new Error(`${program} ended with ${signal ?? code}`);
      for (const { reject } of this.#waiting.values()) reject(error);
    });
  }

  get pid() {
    return this.#child.pid;
  }

  send(message) {
    this.#child.send(message);
  }

  /** The next message of this type. */
  hear(type) {
    return new Promise((resolve, reject) => this.#waiting.set(type, { resolve, reject })).finally(
      () => this.#waiting.delete(type),
    );
  }

  /** Asks it to end, and waits for that. */
  async stop() {
    const ended = once(this.#child, 'exit');
    this.#child.send({ type: 'stop' });
    await ended;
  }
}
