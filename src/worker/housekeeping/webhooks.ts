/**
 * Tells webhooks how jobs and batches ended. There are two halves, which share nothing but Redis: the follower finds ends and
 * adds a delivery for each, and the sender delivers. Every server and worker command runs both, so others go on when one dies.
 */
import type { Queue } from 'bullmq';
import type { Logger } from '../../core/logger.ts';
import { WebhookLimits, type WebhookSecret } from '../../core/webhook.ts';
import type { openConnection } from '../../queue/redis/connection.ts';
import { WebhookDeliveries } from '../../queue/webhooks/webhook-deliveries.ts';
import { WebhookSecrets } from '../../queue/webhooks/webhook-secrets.ts';
import { WebhookFollower } from './webhook-follower.ts';
import { WebhookSender } from './webhook-sender.ts';

export interface WebhookSettings {
  /** See `WebhookSecretsOptions`. */
  readonly secrets?: readonly WebhookSecret[] | undefined;
  readonly allowedNetworks?: readonly string[] | undefined;
  /** Limits that are left out have defaults. */
  readonly limits?: Partial<WebhookLimits> | undefined;
}

export interface WebhooksOptions {
  /** The connection of housekeeping, which closes it. */
  readonly connection: ReturnType<typeof openConnection>;
  readonly queueOf: (name: string) => Queue;
  readonly logger: Logger;
  readonly settings: WebhookSettings;
  readonly now: () => number;
}

export class Webhooks {
  readonly #deliveries: WebhookDeliveries;
  readonly #follower: WebhookFollower;
  readonly #sender: WebhookSender;
  #closing: Promise<void> | undefined;

  constructor({ connection, queueOf, logger, settings, now }: WebhooksOptions) {
    const { secrets = [], allowedNetworks = [] } = settings;
    const limits = WebhookLimits.parse({ allowedNetworks, ...settings.limits });
    this.#deliveries = new WebhookDeliveries(connection, now);
    this.#follower = new WebhookFollower({
      ...{ connection, queueOf, logger, now },
      deliveries: this.#deliveries,
      followMs: limits.followMs,
    });
    this.#sender = new WebhookSender({
      ...{ connection, logger },
      secrets: new WebhookSecrets({ connection, configured: secrets, now }),
      limits,
    });
  }

  /** Idempotent. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      await Promise.all([this.#follower.close(), this.#sender.close()]);
      await this.#deliveries.close();
    })();
    return this.#closing;
  }
}
