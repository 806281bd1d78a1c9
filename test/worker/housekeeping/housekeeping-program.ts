/** Housekeeping in a process of its own, so that a test can kill it. */
import process from 'node:process';
import { createLogger } from '../../../src/core/logger.ts';
import {
  Housekeeping,
  type HousekeepingOptions,
} from '../../../src/worker/housekeeping/housekeeping.ts';

export type HousekeepingRequest = Pick<HousekeepingOptions, 'address' | 'webhooks'>;

process.on('message', (request: HousekeepingRequest) => {
  void Housekeeping.start({ ...request, logger: createLogger('silent', 'test') }).then(() => {
    process.send?.('ready');
  });
});
