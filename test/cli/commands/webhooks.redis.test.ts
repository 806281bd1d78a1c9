import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { createLogger } from '../../../src/core/logger.ts';
import { Housekeeping } from '../../../src/worker/housekeeping/housekeeping.ts';
import { startRedis } from '../../support/redis.ts';
import { WebhookReceiver } from '../../support/webhook-receiver.ts';
import { startWorker } from '../../support/worker.ts';
import { runCli } from '../run-cli.ts';

test('webhooks are asked for, looked at, sent again and signed anew from the command line', async () => {
  await using redis = await startRedis();
  await using receiver = await WebhookReceiver.start(410, 204);
  const cli = (...argv: string[]) => runCli([...argv, '--data-dir', redis.dataDir]);
  const folder = path.join(redis.dataDir, 'audio');
  mkdirSync(folder);
  writeFileSync(path.join(folder, 'a.wav'), 'audio');
  const events = ['--webhook', receiver.url, '--webhook-events', 'completed'];
  const enqueued = await cli('enqueue', folder, '--model', 'hooked', ...events);
  expect(enqueued.code).toBe(0);
  const id = enqueued.stdout.trim();
  await using _worker = startWorker(redis.address, 'hooked', () => undefined);
  await using _housekeeping = await Housekeeping.start({
    address: redis.address,
    logger: createLogger('silent', 'test'),
    webhooks: { allowedNetworks: ['127.0.0.0/8'], limits: { followMs: 50 } },
  });
  const listed = (state: string) =>
    vi.waitFor(
      async () => {
        const { items } = JSON.parse((await cli('webhooks', 'list', id, '--json')).stdout);
        expect(items).toMatchObject([{ event: 'job.completed', state }]);
        return items[0].id as string; // The schema of the list is tested with the interface.
      },
      { timeout: 10_000 },
    );
  const delivery = await listed('failed');
  expect((await cli('webhooks', 'list', id)).stdout).toContain('the answer is status 410');
  expect((await cli('webhooks', 'redeliver', delivery)).stdout).toContain(delivery);
  await listed('delivered');
  const unknown = await cli('webhooks', 'redeliver', 'msg_0');
  expect(unknown.stderr).toContain('DELIVERY_NOT_FOUND');

  const secret = (...argv: string[]) => cli('webhooks', 'secret', ...argv);
  const server = (await secret()).stdout;
  expect(server).toMatch(/^whsec_[A-Za-z0-9+/]{43}=\n$/);
  expect((await secret('--tenant', 'law')).stdout).toBe(server);
  const own = (await secret('--tenant', 'law', '--rotate')).stdout;
  expect(own).not.toBe(server);
  const both = (await secret('--tenant', 'law', '--rotate', '--keep-old', '1h')).stdout;
  expect(both).toContain(`${own.trim()} until `);
  expect((await secret('--tenant', 'law', '--remove')).stdout).toBe(server);
  expect((await secret('--remove')).code).toBe(2);
  expect((await cli('enqueue', folder, '--webhook', 'ftp://a')).code).toBe(2);
});
