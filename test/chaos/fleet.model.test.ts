/** The fleet of the walk-through in docs/operations.md, with few files. */
import { test } from 'vitest';
import { ensureProven, runFleet } from './fleet-scenario.ts';

const FILES = 60;

test('a fleet loses and doubles nothing while a worker, a server, a Sentinel, Redis and the store are killed', async () => {
  const report = await runFleet({ files: FILES, batch: 2, lockSeconds: 4 });
  process.stdout.write(`fleet: ${JSON.stringify(report)}\n`);
  ensureProven(report, FILES);
});
