/** Reads server-sent events (text/event-stream) as the HTML standard defines them. Pure: bytes go in as text, messages come out. */
import { WavepoolError } from '../core/errors.ts';

export interface SseMessage {
  /** `message` unless the server named it. */
  readonly event: string;
  /** The lines of data, joined by line feeds. */
  readonly data: string;
}

/** A message that is longer is not one of ours, and is not held. */
export const MAX_MESSAGE_LENGTH = 4 * 1024 ** 2;

const FIELD = /^([^:]*)(?:: ?(.*))?$/s;

export class SseParser {
  /** Of the last complete message: where to go on. */
  lastEventId: string | undefined;
  /** How long the server wants clients to wait before they come back. */
  retryMs: number | undefined;
  /** The beginning of a line. */
  #rest = '';
  /** The text so far ends with a carriage return: a line feed would belong to it. */
  #afterReturn = false;
  #event = '';
  #data: string[] = [];
  #length = 0;
  #id: string | undefined;

  constructor(lastEventId?: string) {
    this.lastEventId = lastEventId;
    this.#id = lastEventId;
  }

  /**
   * The messages that are complete with this text, which may begin and end anywhere.
   * @throws {WavepoolError} INTERNAL for a message without an end
   */
  *push(text: string): Generator<SseMessage> {
    if (text === '') return;
    // The carriage return before it has ended the line already.
    const begin = this.#afterReturn && text.startsWith('\n') ? 1 : 0;
    this.#afterReturn = text.endsWith('\r');
    const lines = (this.#rest + text.slice(begin)).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      const message = this.#take(line);
      if (message !== undefined) yield message;
    }
    if (this.#length + this.#rest.length > MAX_MESSAGE_LENGTH) {
      throw new WavepoolError('INTERNAL', 'the server sent an event that does not end');
    }
  }

  #take(line: string): SseMessage | undefined {
    if (line === '') return this.#dispatch();
    const [, field = '', value = ''] = FIELD.exec(line) ?? [];
    switch (field) {
      case 'event':
        this.#event = value;
        break;
      case 'data':
        this.#data.push(value);
        this.#length += value.length;
        break;
      case 'id':
        if (!value.includes('\0')) this.#id = value;
        break;
      case 'retry':
        if (/^\d+$/.test(value)) this.retryMs = Number(value);
        break;
      default: // A comment (its field is empty), or a field of the future.
    }
    return undefined;
  }

  #dispatch(): SseMessage | undefined {
    this.lastEventId = this.#id;
    const message = { event: this.#event || 'message', data: this.#data.join('\n') };
    const isEmpty = this.#data.length === 0;
    this.#event = '';
    this.#data = [];
    this.#length = 0;
    return isEmpty ? undefined : message;
  }
}
