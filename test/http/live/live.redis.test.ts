import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { WavepoolClient } from '../../../src/client/wavepool-client.ts';
import { parseLiveTranscribeSettings } from '../../../src/core/live/live.ts';
import { asTranscript } from '../../../src/core/results/job-result.ts';
import { AudioQueue } from '../../../src/queue/audio-queue.ts';

import { TEST_ADDON_BUILT } from '../../engine/test-addon.ts';
import type { FakeWorker } from '../../support/fake-worker.ts';
import type { HeldEngine } from '../../support/held-engine.ts';
import { startTestServer, TEST_MODEL, type TestServer } from '../../support/http.ts';
import {
  type LiveClient,
  type LiveClientOptions,
  pcm16,
  wavOf,
} from '../../support/live-client.ts';
import { sound } from '../../worker/live/live-fixture.ts';
import {
  failure,
  heldEngine,
  LIVE,
  OPTIONS,
  openLive,
  QUERY,
  startWorker,
} from './live-fixture.ts';

const SCRIPT = '.sss..ss.ssss...s...';
const PCM = pcm16(sound(SCRIPT));

let server: TestServer;
let worker: FakeWorker;
let engine: HeldEngine;

function open(options: LiveClientOptions = {}): Promise<LiveClient> {
  return openLive(server, options);
}

/** Every place is free again. */
async function expectFree(): Promise<void> {
  await worker.model(LIVE, ({ activeSlots }) => activeSlots === 0);
  expect(server.services.live.size).toBe(0);
}

describe.skipIf(!TEST_ADDON_BUILT)('live audio', () => {
  let whole: string;

  beforeAll(async () => {
    server = await startTestServer();
    engine = heldEngine();
    worker = await startWorker(server, 2, engine);
    using client = await open();
    client.chunk(PCM);
    client.finish();
    whole = (await client.event('live.done')).text;
  });
  afterEach(async () => {
    engine.openGates();
    await expectFree();
  });
  afterAll(async () => {
    await worker[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  test('gives what a job over the same sound gives', async () => {
    using client = await open();
    for (let at = 0; at < PCM.length; at += 7_777) client.chunk(PCM.subarray(at, at + 7_777));
    client.finish();
    const done = await client.event('live.done');

    const path = join(server.redis.dataDir, 'same.wav');
    await writeFile(path, wavOf(PCM));
    await using queue = await AudioQueue.open({ address: server.redis.address, model: TEST_MODEL });
    const id = await queue.add({ input: { kind: 'path', path }, options: OPTIONS });
    const { resultKey } = await queue.waitFor(id);
    const transcript = asTranscript(await server.services.results.read(resultKey));

    expect(done.text).toBe(transcript.text);
    expect(done).toMatchObject({ durationSeconds: SCRIPT.length, segments: 4 });
    const told = client.events.flatMap((event) => (event.type === 'live.segment' ? [event] : []));
    expect(told.map(({ start, end, text }) => ({ start, end, text }))).toEqual(
      transcript.segments.map(({ start, end, text }) => ({ start, end, text })),
    );
    const types = client.events.map(({ type }) => type);
    expect(types[0]).toBe('live.opened');
    expect(types.at(-1)).toBe('live.done');
    for (const { index, start } of told) {
      const ended = client.events.findIndex(
        (event) => event.type === 'live.speech-ended' && event.index === index,
      );
      const started = client.events.findIndex(
        (event) => event.type === 'live.speech-started' && event.start === start,
      );
      expect(started).toBeGreaterThan(0);
      expect(ended).toBeGreaterThan(started);
    }
  });

  test('tells what is said while it is being said', async () => {
    using client = await open();
    await client.event('live.opened');
    client.chunk(pcm16(sound('.s')));
    await client.event('live.speech-started');
    client.chunk(pcm16(sound('s..')));
    expect(await client.event('live.segment')).toMatchObject({ index: 0, truncated: false });
    client.finish();
    expect(await client.event('live.done')).toMatchObject({ durationSeconds: 5, segments: 1 });
  });

  test('takes other rates, channels and floats as they are declared', async () => {
    const query = { ...QUERY, sample_rate: '32000', channels: '2', sample_format: 'f32le' };
    using client = await open({ query });
    client.chunk(Buffer.from(sound('.ss...ss').buffer));
    client.finish();
    expect(await client.event('live.done')).toMatchObject({ durationSeconds: 2 });
  });

  test('comes through the client, while the source still gives', async () => {
    const client = new WavepoolClient({ baseUrl: server.url });
    const heard: string[] = [];
    let hear: () => void = () => undefined;
    const firstHeard = new Promise<void>((resolve) => {
      hear = resolve;
    });
    async function* microphone(): AsyncGenerator<Uint8Array> {
      yield pcm16(sound('.ss..'));
      await firstHeard;
      yield pcm16(sound('.ss..', 7));
    }
    for await (const event of client.live(microphone(), { options: OPTIONS })) {
      heard.push(event.type === 'live.segment' ? event.text : event.type);
      if (event.type === 'live.segment') hear();
    }
    expect(heard.filter((text) => text.startsWith('fake '))).toHaveLength(2);
    expect(heard.at(-1)).toBe('live.done');

    async function* broken(): AsyncGenerator<Uint8Array> {
      yield pcm16(sound('.ss..'));
      await Promise.resolve();
      throw new TypeError('the microphone is unplugged');
    }
    const failing = async (): Promise<void> => {
      for await (const event of client.live(broken(), { options: OPTIONS })) heard.push(event.type);
    };
    await expect(failing()).rejects.toThrow();
    const leaving = client.live(microphone(), { options: OPTIONS });
    expect((await leaving.next()).value).toMatchObject({ type: 'live.opened' });
    await leaving.return();
    await expectFree();
    const refused = client.live(Buffer.alloc(2), { model: 'nobody-has-it' });
    await expect(refused.next()).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' });
  });

  describe('framing', () => {
    const cut = (client: LiveClient, size: number, bytes = PCM, extension = ''): void => {
      for (let at = 0; at < bytes.length; at += size) {
        client.chunk(bytes.subarray(at, at + size), extension);
      }
    };
    const framings: Record<string, (client: LiveClient) => void> = {
      'several chunks': (client) => cut(client, 100_001),
      'one large chunk': (client) => client.chunk(PCM),
      'a chunk of 300 kB and the rest': (client) => cut(client, 300_000),
      '40 tiny chunks and the rest': (client) => {
        cut(client, 3, PCM.subarray(0, 120));
        client.chunk(PCM.subarray(120));
      },
      extensions: (client) => cut(client, 50_000, PCM, ';name=value;other="quoted"'),
    };
    test.each(Object.keys(framings))('%s', async (name) => {
      using client = await open();
      framings[name]?.(client);
      client.finish(name === 'extensions' ? 'X-Checksum: 1\r\n' : '');
      expect(await client.event('live.done')).toMatchObject({ text: whole, segments: 4 });
    });

    test('a body of declared length has its end, too', async () => {
      using client = await open({ headers: [`Content-Length: ${PCM.length}`] });
      client.write(PCM);
      expect(await client.event('live.done')).toMatchObject({ text: whole });
    });

    const broken: Record<string, [(client: LiveClient) => void, string]> = {
      'the end is missing': [(client) => client.socket.end(), 'before its last chunk'],
      'a chunk is cut': [
        (client) => {
          client.write('ffff\r\nabc');
          client.socket.end();
        },
        'before its last chunk',
      ],
      'a size is no number': [(client) => client.write('zz\r\n'), 'no hexadecimal number'],
      'a size is too long': [(client) => client.write('f'.repeat(40)), 'no hexadecimal number'],
      'a chunk is larger than there is': [
        (client) => {
          client.write('ffffffffffffffff\r\nabcd');
          client.socket.end();
        },
        'before its last chunk',
      ],
      'a chunk does not end where it should': [
        (client) => client.write('2\r\nabcdef\r\n'),
        'does not end where its size says',
      ],
      'an extension has no end': [
        (client) => client.write(`2;${'x'.repeat(40_000)}`),
        'extensions of a chunk are too long',
      ],
    };
    test.each(Object.keys(broken))('it is an error that %s', async (name) => {
      const [breakIt, why] = broken[name] ?? [() => undefined, ''];
      using client = await open();
      client.chunk(pcm16(sound('.ss..')));
      await client.event('live.segment');
      breakIt(client);
      const { error } = await client.event('live.failed');
      expect(error).toMatchObject({ code: 'STREAM_BROKEN', retryable: false });
      expect(error.message).toContain(why);
      await client.ended();
      expect(client.events.some(({ type }) => type === 'live.done')).toBe(false);
    });

    test('samples that end within a frame are an error', async () => {
      using client = await open();
      client.chunk(Buffer.alloc(1_001));
      client.finish();
      expect(await client.event('live.failed')).toMatchObject(failure('INPUT_UNDECODABLE'));
    });

    test.each([
      [['Transfer-Encoding: notchunked']],
      [['Transfer-Encoding: chunked-garbage']],
      [['Transfer-Encoding: gzip, chunked']],
      [['Transfer-Encoding: gzip', 'Transfer-Encoding: chunked']],
      [['Transfer-Encoding: chunked', 'Content-Length: 5']],
      [[]],
    ])('is not taken for live audio: %j', async (headers) => {
      using client = await open({ headers });
      client.write('5\r\nhello\r\n0\r\n\r\n');
      expect((await client.answer()).status).toBe(400);
    });
  });

  test('a client that goes gives its place back', async () => {
    const client = await open();
    await client.event('live.opened');
    await worker.model(LIVE, ({ activeSlots }) => activeSlots === 1);
    client.socket.destroy();
    await expectFree();
  });

  test('without a free place the answer is 503 at once, and says when to come back', async () => {
    using first = await open();
    using second = await open();
    await Promise.all([first.event('live.opened'), second.event('live.opened')]);
    using third = await open();
    const { status, text } = await third.answer();
    expect(status).toBe(503);
    expect(text).toMatch(/^retry-after: \d+/im);
    expect(text).toContain('BUSY_TIMEOUT');
    first.finish();
    second.finish();
    await Promise.all([first.event('live.done'), second.event('live.done')]);
  });

  test('what is wrong with the request is told before it is a stream', async () => {
    const statusOf = async (query: Record<string, string>): Promise<number> => {
      using client = await open({ query });
      return (await client.answer()).status;
    };
    expect(await statusOf({ sample_rate: '999' })).toBe(400);
    expect(await statusOf({ sample_format: 'mp3' })).toBe(400);
    expect(await statusOf({ options: '{' })).toBe(400);
    expect(await statusOf({ unknown: '1' })).toBe(400);
    expect(await statusOf({ language: 'en' })).toBe(400);
    expect(await statusOf({ model: 'nobody-has-it' })).toBe(404);
  });

  test('a worker that lags holds the client back, and loses nothing', {
    timeout: 60_000,
  }, async () => {
    engine.runs.close();
    const script = '.sssssssss'.repeat(30);
    const pcm = pcm16(sound(script));
    const frames = { sampleRate: 16_000, channels: 1, sampleFormat: 's16le' } as const;
    const { live } = server.services;
    const stream = await live.open({
      id: '3f1c5e1e-7c0a-4d0e-9a57-0d5a4f1f7a01',
      model: TEST_MODEL,
      format: frames,
      options: parseLiveTranscribeSettings(OPTIONS),
      idleTimeoutMs: 0,
      signal: new AbortController().signal,
      onEvent: () => undefined,
    });
    let sent = 0;
    const sending = (async () => {
      for (let at = 0; at < pcm.length; at += 32_000) {
        await stream.send(pcm.subarray(at, at + 32_000));
        sent += 32_000;
      }
    })();
    let before = -1;
    await expect
      .poll(
        () => {
          const stands = sent === before;
          before = sent;
          return stands;
        },
        { interval: 300, timeout: 20_000 },
      )
      .toBe(true);
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThan(120 * 32_000);
    engine.openGates();
    await sending;
    expect(await stream.finish()).toMatchObject({ durationSeconds: 300, segments: 30 });
  });
});
