/** A reader of server-sent events. */

export interface SseEvent {
  readonly id: string;
  readonly type: string;
  /** Of the data, parsed. */
  readonly data: Record<string, unknown>;
}

export interface SseReader extends Disposable {
  readonly response: Response;
  /** The last id that was sent, be it without an event. */
  readonly lastId: string;
  /** Comments so far. */
  readonly comments: readonly string[];
  /** The next event; undefined at the end of the stream. */
  next(): Promise<SseEvent | undefined>;
  /** Events up to and with the first that fits. Fails when the stream ends before. */
  until(fits: (event: SseEvent) => boolean): Promise<SseEvent[]>;
  /** Resolves with the next comment. */
  comment(): Promise<string>;
  /** All events until the end. */
  rest(): Promise<SseEvent[]>;
  close(): void;
}

export async function readSse(
  url: string,
  lastEventId?: string,
  sent: Record<string, string> = {},
): Promise<SseReader> {
  const abort = new AbortController();
  const headers: Record<string, string> =
    lastEventId === undefined ? sent : { ...sent, 'last-event-id': lastEventId };
  const response = await fetch(url, { headers, signal: abort.signal });
  const parts = response.body === null ? undefined : blocks(response.body);
  const comments: string[] = [];
  let lastId = lastEventId ?? '';
  const nextPart = async (): Promise<SseEvent | 'comment' | undefined> => {
    const part = await parts?.next().catch(() => undefined);
    if (part === undefined || part.done === true) return undefined;
    const lines = part.value.split('\n');
    const of = (name: string): string | undefined =>
      lines
        .find((line) => line.startsWith(`${name}:`))
        ?.slice(name.length + 1)
        .trim();
    lastId = of('id') ?? lastId;
    const comment = of('');
    if (comment !== undefined) comments.push(comment);
    const data = of('data');
    if (data === undefined) return 'comment';
    return { id: lastId, type: of('event') ?? 'message', data: JSON.parse(data) };
  };
  const next = async (): Promise<SseEvent | undefined> => {
    for (;;) {
      const part = await nextPart();
      if (part !== 'comment') return part;
    }
  };
  const close = (): void => abort.abort();
  return {
    response,
    get lastId() {
      return lastId;
    },
    comments,
    next,
    until: async (fits) => {
      const events: SseEvent[] = [];
      for (;;) {
        const event = await next();
        if (event === undefined) throw new Error(`the stream ended after ${events.length} events`);
        events.push(event);
        if (fits(event)) return events;
      }
    },
    comment: async () => {
      const { length } = comments;
      while (comments.length === length) {
        if ((await nextPart()) !== 'comment') throw new Error('no comment came');
      }
      return comments.at(-1) ?? '';
    },
    rest: async () => {
      const events: SseEvent[] = [];
      for (let event = await next(); event !== undefined; event = await next()) events.push(event);
      return events;
    },
    close,
    [Symbol.dispose]: close,
  };
}

async function* blocks(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const parts = text.split('\n\n');
    text = parts.pop() ?? '';
    yield* parts;
  }
}
