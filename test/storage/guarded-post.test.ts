import { describe, expect, test } from 'vitest';
import { guardedPost } from '../../src/storage/guarded-post.ts';
import { WebhookReceiver } from '../support/webhook-receiver.ts';

const MESSAGE = { body: '{"a":1}', headers: { 'content-type': 'application/json' } };
const OPEN = { allowedNetworks: ['127.0.0.0/8'], timeoutMs: 10_000 };

describe('a post to an address that somebody else chose', () => {
  test('sends body and headers and tells the status', async () => {
    await using receiver = await WebhookReceiver.start((response) =>
      response.writeHead(503, { 'retry-after': '7' }).end('busy'),
    );
    const answer = await guardedPost(receiver.url, MESSAGE, OPEN);
    expect(answer).toEqual({ status: 503, retryAfter: '7' });
    expect(receiver.received).toMatchObject([{ body: MESSAGE.body, headers: MESSAGE.headers }]);
  });

  test('does not reach a private address, by whatever name', async () => {
    await using receiver = await WebhookReceiver.start(200);
    const { port } = new URL(receiver.url);
    const closed = { ...OPEN, allowedNetworks: [] };
    const addresses = [
      receiver.url,
      `http://[::ffff:127.0.0.1]:${port}/`,
      `http://2130706433:${port}/`,
      `http://hook.example:${port}/`,
      `http://user:secret@127.0.0.1:${port}/`,
    ];
    for (const address of addresses) {
      const resolve = () => Promise.resolve(['93.184.216.34', '127.0.0.1']);
      await expect(guardedPost(address, MESSAGE, { ...closed, resolve })).rejects.toMatchObject({
        code: 'FORBIDDEN',
      });
    }
    expect(receiver.received).toEqual([]);
  });

  test('goes to the address that was checked, whatever the name resolves to later', async () => {
    await using receiver = await WebhookReceiver.start(204);
    const { port } = new URL(receiver.url);
    const resolve = () => Promise.resolve(['127.0.0.1']);
    const answer = await guardedPost(`http://hook.invalid:${port}/`, MESSAGE, { ...OPEN, resolve });
    expect(answer.status).toBe(204);
    expect(receiver.received).toMatchObject([{ headers: { host: `hook.invalid:${port}` } }]);
  });

  test('follows no redirect', async () => {
    await using target = await WebhookReceiver.start(200);
    await using receiver = await WebhookReceiver.start((response) =>
      response.writeHead(302, { location: target.url }).end(),
    );
    expect(await guardedPost(receiver.url, MESSAGE, OPEN)).toMatchObject({ status: 302 });
    expect(target.received).toEqual([]);
  });

  test('waits no longer than it may, and reads no more than a short answer', async () => {
    await using silent = await WebhookReceiver.start(() => undefined);
    const late = guardedPost(silent.url, MESSAGE, { ...OPEN, timeoutMs: 50 });
    await expect(late).rejects.toThrow('no answer within 50 ms');
    await using endless = await WebhookReceiver.start((response) => {
      response.writeHead(200);
      const more = (): void => {
        if (!response.destroyed) response.write('x'.repeat(65_536), more);
      };
      more();
    });
    expect(await guardedPost(endless.url, MESSAGE, OPEN)).toMatchObject({ status: 200 });
  });
});
