/**
 * Messages on their way to another process. Those of one turn of the event loop go out together: a busy worker says three
 * things of every job, and a system call for each costs more than all else that it does for an instant job.
 *
 * Before anything native begins for a job its input is looked for on disk, which takes a turn: whatever takes the process down
 * has been announced by then.
 */
export class Outbox<Message> {
  readonly #send: (messages: readonly Message[]) => void;
  #waiting: Message[] = [];

  constructor(send: (messages: readonly Message[]) => void) {
    this.#send = send;
  }

  /** In the order of the calls. */
  post(message: Message): void {
    if (this.#waiting.push(message) === 1) setImmediate(() => this.flush());
  }

  /** Sends now what still waits; for a process that is about to end. */
  flush(): void {
    const messages = this.#waiting;
    if (messages.length === 0) return;
    this.#waiting = [];
    this.#send(messages);
  }
}
