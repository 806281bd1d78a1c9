import { describe, expect, test } from 'vitest';
import { MAX_MESSAGE_LENGTH, type SseMessage, SseParser } from '../../src/client/sse-parser.ts';

function parse(chunks: readonly string[], parser = new SseParser()): SseMessage[] {
  return chunks.flatMap((chunk) => [...parser.push(chunk)]);
}

const STREAM = [
  ': welcome\n',
  'retry: 250\n\n',
  'id: 1\nevent: running\ndata: {"id":"a"}\n\n',
  ':heartbeat\n\n',
  'id: 2\ndata: one\ndata:two\ndata:  three\ndata\n\n',
  'unknown: field\nid: 3\ndata: last\n\n',
].join('');

const MESSAGES = [
  { event: 'running', data: '{"id":"a"}' },
  { event: 'message', data: 'one\ntwo\n three\n' },
  { event: 'message', data: 'last' },
];

describe('the parser of server-sent events', () => {
  test.each([
    ['line feeds', STREAM],
    ['carriage returns with line feeds', STREAM.replaceAll('\n', '\r\n')],
    ['carriage returns alone', STREAM.replaceAll('\n', '\r')],
  ])('gives the same messages however the text is cut, with %s', (_, stream) => {
    expect(parse([stream])).toEqual(MESSAGES);
    expect(parse([...stream])).toEqual(MESSAGES);
    for (let cut = 1; cut < stream.length; cut++) {
      expect(parse([stream.slice(0, cut), stream.slice(cut)])).toEqual(MESSAGES);
    }
  });

  test('a message comes with its blank line, before anything of the next one', () => {
    expect(parse(['data: a\r\r'])).toEqual([{ event: 'message', data: 'a' }]);
    expect(parse(['data: a\n\r\n'])).toEqual([{ event: 'message', data: 'a' }]);
  });

  test('knows where to go on, and how soon', () => {
    const parser = new SseParser('0');
    expect(parser.lastEventId).toBe('0');
    parse(['retry: 250\nretry: soon\nid: 1\ndata: x'], parser);
    expect([parser.lastEventId, parser.retryMs]).toEqual(['0', 250]);
    parse(['\n\n'], parser);
    expect(parser.lastEventId).toBe('1');
    parse(['id: 2\n\n'], parser);
    expect(parser.lastEventId).toBe('2');
    parse(['id: a\0b\ndata: y\n\n'], parser);
    expect(parser.lastEventId).toBe('2');
  });

  test('a name is of one message only, and a message without data is none', () => {
    expect(parse(['event: a\n\ndata: b\n\nevent: c\ndata:\n\n'])).toEqual([
      { event: 'message', data: 'b' },
      { event: 'c', data: '' },
    ]);
  });

  test('what the connection broke off is dropped', () => {
    expect(parse(['data: a\n\ndata: b\n'])).toEqual([{ event: 'message', data: 'a' }]);
  });

  test('a message without an end is not held for ever', () => {
    const lines = 'data: 0123456789\n'.repeat(MAX_MESSAGE_LENGTH / 10 + 1);
    expect(() => parse([lines])).toThrow('does not end');
    expect(() => parse(['x'.repeat(MAX_MESSAGE_LENGTH + 1)])).toThrow('does not end');
  });
});
