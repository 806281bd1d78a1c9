/** Removes old uploads from time to time. */
import { forgetUploadReferences, isUploadNeeded } from '../../queue/access/upload-references.ts';
import type { Services } from '../services.ts';

/** The longest time between two sweeps. */
const MOST_INTERVAL_MS = 3_600_000;

/** Removes the uploads that were not used for a while and are not needed. Returns how many were removed. */
export async function sweepUploads(services: Services): Promise<number> {
  const { uploads, queues, settings, now } = services;
  const removed = await uploads.sweep({
    usedBefore: now() - settings.uploadRetentionMs,
    isNeeded: (id) => isUploadNeeded(queues, id),
  });
  for (const id of removed) await forgetUploadReferences(queues.connection, id);
  return removed.length;
}

/** Sweeps from time to time until the server is to end. */
export function keepUploadsSwept(services: Services): void {
  const { settings, closing, logger } = services;
  const interval = Math.min(MOST_INTERVAL_MS, settings.uploadRetentionMs);
  const timer = setInterval(() => {
    sweepUploads(services).then(
      (removed) => {
        if (removed > 0) logger.info({ removed }, 'old uploads removed');
      },
      (err: unknown) => logger.warn({ err }, 'old uploads could not be looked at'),
    );
  }, interval).unref();
  closing.addEventListener('abort', () => clearInterval(timer), { once: true });
}
