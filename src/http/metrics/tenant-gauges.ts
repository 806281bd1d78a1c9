/** What waits and runs, by tenant. There may be any number of tenants: the busiest have a name, the others share one. */
import type { Gauge } from 'prom-client';
import type { TenantLoad } from '../../queue/tenants/tenant-loads.ts';

const MOST_NAMED = 50;
/** No tenant's own: it is no word. */
const OTHERS = '(others)';

type Make = { gauge(name: string, help: string, ...labels: 'tenant'[]): Gauge<'tenant'> };

export class TenantGauges {
  readonly #waiting: Gauge<'tenant'>;
  readonly #running: Gauge<'tenant'>;

  constructor(make: Make) {
    const of = `by tenant: the ${MOST_NAMED} busiest, and ${OTHERS}.`;
    this.#waiting = make.gauge('wavepool_tenant_jobs_waiting', `Jobs that wait, ${of}`, 'tenant');
    this.#running = make.gauge('wavepool_tenant_jobs_running', `Jobs that run, ${of}`, 'tenant');
  }

  show(loads: readonly TenantLoad[]): void {
    this.#waiting.reset();
    this.#running.reset();
    const jobs = new Map<string, number>();
    for (const { tenant, waiting, running } of loads)
      jobs.set(tenant, (jobs.get(tenant) ?? 0) + waiting + running);
    const named = new Set(
      [...jobs]
        .toSorted(([, a], [, b]) => b - a)
        .slice(0, MOST_NAMED)
        .map(([tenant]) => tenant),
    );
    for (const { tenant: owner, waiting, running } of loads) {
      const tenant = named.has(owner) ? owner : OTHERS;
      this.#waiting.inc({ tenant }, waiting);
      this.#running.inc({ tenant }, running);
    }
  }
}
