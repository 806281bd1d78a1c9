/**
 * Messages on their way to another process. Those of one turn of the event loop go out together: a busy worker says three
 * things of every job, and a system call for each costs more than all else that it does for an instant job.
 *
 * Before anything native begins for a job its input is looked for on disk, which takes a turn: whatever takes the process down
 * has been announced by then.
 */
export class Outbox<Message> {
  readonly #send: (messages: readonly Message[]) => void;
  #waiting: Draft<Message>[] = [];

  constructor(send: (messages: readonly Message[]) => void) {
    this.#send = send;
  }

  /** In the order of the calls. */
  readonly post: Post<Message> = (draft) => {
    if (this.#waiting.push(draft) === 1) setImmediate(() => this.flush());
  };

  /** Sends now what still waits; for a process that is about to end. */
  flush(): void {
    const drafts = this.#waiting;
    this.#waiting = [];
    const messages = drafts.flatMap((draft) => (isLate(draft) ? draft() : [draft]));
    if (messages.length > 0) this.#send(messages);
  }
}

/** A message, or what is asked for messages when they go out. */
export type Draft<Message> = Message | (() => readonly Message[]);

export type Post<Message> = (draft: Draft<Message>) => void;

function isLate<Message>(draft: Draft<Message>): draft is () => readonly Message[] {
  return typeof draft === 'function';
}
