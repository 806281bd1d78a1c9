/** A worker's part in sharing a queue among tenants: see `fair-share.ts`. */
import type { JobData } from '../../core/job/job.ts';
import type { Logger } from '../../core/logger.ts';
import type { openConnection } from '../../queue/redis/connection.ts';
import {
  FairShare,
  type FairShareOptions,
  Settling,
  WINDOW,
} from '../../queue/tenants/fair-share.ts';
import { KnownLimits } from '../../queue/tenants/tenant-rules.ts';

/** Windows without a limit are large: filling them now and then is enough, or when jobs end so fast that half of one has gone. */
const PAUSE_MS = 250;

export interface TenantGateOptions extends FairShareOptions {
  readonly connection: ReturnType<typeof openConnection>;
  readonly queue: string;
  readonly logger: Logger;
}

export class TenantGate {
  readonly #share: FairShare;
  readonly #settling: Settling;
  readonly #limits: KnownLimits;

  constructor({ connection, queue, logger, window }: TenantGateOptions) {
    this.#share = new FairShare(connection, queue, { window });
    this.#limits = new KnownLimits(connection);
    this.#settling = new Settling({
      share: this.#share,
      pauseMs: PAUSE_MS,
      mostWaiting: Math.ceil((window ?? WINDOW) / 2),
      // Housekeeping does it again.
      onError: (err) => logger.debug({ err }, 'the next jobs of a tenant could not be let in'),
    });
  }

  /** Whether a job that was taken may run. Asks nobody for tenants without a limit. */
  async enter(id: string, { tenant, priority = 0, interactive }: JobData): Promise<boolean> {
    if (!(await this.#limits.isLimited(tenant))) return true;
    return this.#share.enter({ id, tenant, priority, interactive: interactive === true });
  }

  /** A job has ended, or was sent back: others of its tenant may come. */
  left(tenant: string): void {
    const settle = (isLimited: boolean): void => {
      if (isLimited) this.#settling.ask(tenant);
      else this.#settling.askSoon(tenant);
    };
    this.#limits.isLimited(tenant).then(settle, () => settle(false));
  }

  close(): Promise<void> {
    return this.#settling.close();
  }
}
