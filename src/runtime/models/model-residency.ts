/**
 * What one model has in memory: at most one publication (weights with a complete pool), and how it comes and goes.
 *
 *   unloaded ──▶ loading ──▶ ready ──▶ unloading ──▶ unloaded
 *                   │          └─────▶ reconfiguring ──▶ ready, or as before, or failed with the new configuration
 *                   └──▶ failed (loads again when asked)
 *
 * Whoever calls holds a lease of the model: a request's slot for `initialize`, the whole model for everything else. A
 * load that nobody waits for any more goes on by itself; a manager that wants something else abandons it, and then its
 * weights and sessions are freed as soon as it ends.
 */
import { toWavepoolError, WavepoolError } from '../../core/errors.ts';
import type { SwapStrategy } from '../../core/worker/control.ts';
import type { ModelState } from '../../core/worker/status.ts';
import type { Clock } from '../clock.ts';
import type { Engine } from '../engine.ts';
import { waitFor } from '../waiting.ts';
import type { LoadGuard, LoadReservation } from './load-guard.ts';
import { type ModelConfiguration, sameSessions } from './model-configuration.ts';
import { loadPrivately, type Publication, probeCapacity, release } from './publication.ts';
import { assertSlotsAdmitted, type ModelPolicy } from './slot-policy.ts';

/** What all models of a runtime share. */
export interface ResidencyServices {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly guard: LoadGuard;
  readonly policy: ModelPolicy;
  /** Longest wait for a load, for configurations that have none; 0 = unbounded. */
  readonly loadTimeoutMs: number;
  /** Gets errors that no caller waits for, such as those of freeing an abandoned load. */
  readonly onBackgroundError: (error: unknown) => void;
}

export interface ResidencyOptions {
  readonly id: string;
  readonly configuration: ModelConfiguration;
  /** Ends every wait for a load at once. */
  readonly stop: AbortSignal;
  /** Called in the turn in which a state, a publication or the configuration changed. */
  readonly onChange: () => void;
}

interface Attempt {
  /** Resolves with why it failed, if it did. */
  readonly ended: Promise<WavepoolError | undefined>;
  abandoned: boolean;
  reservation: LoadReservation | undefined;
}

/** Made and not published; the reservation lasts until it is, or is freed. */
interface Staged {
  readonly publication: Publication;
  readonly reservation: LoadReservation;
}

interface Standing {
  readonly state: ModelState;
  readonly failure: WavepoolError | undefined;
}

export class ModelResidency {
  readonly #services: ResidencyServices;
  readonly #options: ResidencyOptions;
  #configuration: ModelConfiguration;
  #standing: Standing = { state: 'unloaded', failure: undefined };
  #published: Publication | undefined;
  #attempt: Attempt | undefined;
  #generation = 0;
  /** Memory that is still to be freed, though nothing of it is published any more. */
  readonly #leaving = new Set<Promise<unknown>>();

  /** @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED */
  constructor(services: ResidencyServices, options: ResidencyOptions) {
    this.#services = services;
    this.#options = options;
    this.#configuration = options.configuration;
    this.#assertSlots(options.configuration);
  }

  get configuration(): ModelConfiguration {
    return this.#configuration;
  }
  get state(): ModelState {
    return this.#standing.state;
  }
  /** Why the last load failed, in the state `failed`. */
  get failure(): WavepoolError | undefined {
    return this.#standing.failure;
  }
  /** Raised by each publication. */
  get generation(): number {
    return this.#generation;
  }
  get published(): Publication | undefined {
    return this.#published;
  }
  /** Pools and abandoned loads whose memory is not free yet. */
  get leaving(): number {
    return this.#leaving.size;
  }

  /**
   * The publication; waits for the one load in progress, or loads. When that load fails, each of those who waited for
   * it tries once itself.
   * @throws {WavepoolError} MODEL_LOAD_TIMEOUT or the signal's error (the load goes on), SHUTTING_DOWN, or why the
   * caller's own load failed.
   */
  async initialize(signal?: AbortSignal): Promise<Publication> {
    const deadlineMs = this.#services.clock.now() + this.#loadTimeoutMs;
    for (;;) {
      if (this.#published) return this.#published;
      const others = this.#attempt;
      const attempt = others ?? this.#beginLoad();
      const failure = await this.#wait(attempt.ended, deadlineMs, signal);
      if (!others && failure) throw failure;
    }
  }

  /** Residency ends at once, then the sessions go, then the weights. A load in progress is abandoned. */
  async retire(): Promise<void> {
    this.#abandonLoad();
    const retired = this.#published;
    this.#published = undefined;
    if (retired) this.#become('unloading');
    try {
      if (retired) await this.#leave(release(retired));
    } finally {
      this.#become('unloaded');
    }
  }

  /** Nobody wants what is being loaded; it is freed once it ends. */
  #abandonLoad(): void {
    const attempt = this.#attempt;
    if (!attempt) return;
    this.#attempt = undefined;
    attempt.abandoned = true;
    attempt.reservation?.giveUpPlace();
    void this.#leave(attempt.ended);
  }

  /** Resolves when nothing of what was retired or abandoned is in memory any more. */
  async released(): Promise<void> {
    await Promise.allSettled(this.#leaving);
  }

  /** Takes effect without another pool. */
  adjust(next: ModelConfiguration): void {
    this.#configuration = next;
    this.#options.onChange();
  }

  /**
   * Replaces the configuration and the pool, in the state `reconfiguring`. What may be refused is refused before anything
   * is freed; then everything is as it was. What fails later is left as the strategy says (`SwapStrategy`).
   * @throws {WavepoolError} SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY, or why the new weights are
   * unusable
   */
  async replace(next: ModelConfiguration, strategy: SwapStrategy = 'retire-first'): Promise<void> {
    this.#assertSlots(next);
    const staged = await this.#prepare(next, strategy);
    this.#become('reconfiguring');
    try {
      if (staged) await this.#swap(next, staged);
      else await this.#retireAndLoad(next);
    } catch (thrown) {
      if (this.state === 'reconfiguring') {
        if (this.#attempt) this.#become('loading');
        else this.#become('failed', toWavepoolError(thrown));
      }
      throw thrown;
    }
  }

  /** What can be refused without any harm. @returns the new publication for `load-first` */
  async #prepare(next: ModelConfiguration, strategy: SwapStrategy): Promise<Staged | undefined> {
    const before = this.#standing;
    this.#become('reconfiguring');
    try {
      // One slot is always supported, so nothing is asked for it.
      if (next.slots > 1) this.#assertSlots(next, await this.#supportedSlots(next));
      return strategy === 'load-first' ? await this.#stage(next) : undefined;
    } catch (thrown) {
      // A load that nobody waited for may have ended meanwhile.
      if (this.#published) this.#become('ready');
      else if (this.#attempt) this.#become('loading');
      else if (this.state === 'reconfiguring') this.#become(before.state, before.failure);
      throw thrown;
    }
  }

  #assertSlots(next: ModelConfiguration, supported?: number): void {
    const { policy } = this.#services;
    assertSlotsAdmitted({
      model: this.#options.id,
      slots: next.slots,
      evidence: policy.evidence(this.#options.id, next),
      unvalidatedSlots: policy.unvalidatedSlots,
      supported,
    });
  }

  /** Slots that the family supports: told by the live pool, by the plan, or by a session that is made to be asked. */
  async #supportedSlots(next: ModelConfiguration): Promise<number> {
    const { engine, policy } = this.#services;
    const published = this.#published;
    if (published && sameSessions(this.#configuration, next)) return published.pool.capacity;
    const plan = await policy.plan(next);
    if (plan !== undefined) return plan.capacity;
    const probed = { ...next, slots: 1 };
    using _reservation = await this.#reserve(probed, true);
    if (published && this.#configuration.path === next.path) {
      return await probeCapacity(published.model, probed);
    }
    const model = await engine.loadModel(next.path);
    try {
      return await probeCapacity(model, probed);
    } finally {
      await model.close();
    }
  }

  /** Frees the old pool, takes the new configuration, then loads it: nothing is published meanwhile. */
  async #retireAndLoad(next: ModelConfiguration): Promise<void> {
    this.#abandonLoad();
    const retired = this.#published;
    this.#published = undefined;
    this.#options.onChange();
    try {
      if (retired) await this.#leave(release(retired));
    } finally {
      this.adjust(next);
    }
    await this.initialize();
  }

  /** Makes the new weights and pool beside what is published. @throws why that failed; all is as before. */
  async #stage(next: ModelConfiguration): Promise<Staged> {
    const making = this.#loadStaged(next);
    const deadlineMs = this.#services.clock.now() + this.#loadTimeoutMs;
    try {
      return await this.#wait(making, deadlineMs, undefined);
    } catch (thrown) {
      void this.#leave(making.then(discard, () => undefined)).catch(
        this.#services.onBackgroundError,
      );
      throw thrown;
    }
  }

  /** Publishes what was staged in place of the old pool, in one turn; then frees that one. */
  async #swap(next: ModelConfiguration, staged: Staged): Promise<void> {
    this.#abandonLoad();
    const retired = this.#published;
    this.#configuration = next;
    this.#publish(staged.publication);
    staged.reservation[Symbol.dispose]();
    if (retired) await this.#leave(release(retired));
  }

  #reserve(configuration: ModelConfiguration, staging: boolean): Promise<LoadReservation> {
    return this.#services.guard.admit({ id: this.#options.id, configuration, staging });
  }

  get #loadTimeoutMs(): number {
    return this.#configuration.loadTimeoutMs ?? this.#services.loadTimeoutMs;
  }

  #beginLoad(): Attempt {
    let end: (failure: WavepoolError | undefined) => void = () => undefined;
    const ended = new Promise<WavepoolError | undefined>((resolve) => {
      end = resolve;
    });
    const attempt: Attempt = { ended, abandoned: false, reservation: undefined };
    this.#attempt = attempt;
    if (this.state !== 'reconfiguring') this.#become('loading');
    // Not awaited: it never rejects, and whoever wants its end waits for `ended`.
    void this.#run(attempt).then(end);
    return attempt;
  }

  /** Loads and publishes. @returns why it failed, if it did */
  async #run(attempt: Attempt): Promise<WavepoolError | undefined> {
    try {
      const configuration = this.#configuration;
      // Kept until the model is resident, so that it counts at every moment.
      using reservation = await this.#reserve(configuration, false);
      attempt.reservation = reservation;
      if (attempt.abandoned) return undefined;
      const publication = await loadPrivately(this.#services.engine, configuration);
      if (attempt.abandoned) {
        await release(publication);
      } else {
        this.#attempt = undefined;
        this.#publish(publication);
      }
      return undefined;
    } catch (thrown) {
      if (attempt.abandoned) {
        this.#services.onBackgroundError(thrown);
        return undefined;
      }
      const failure = toWavepoolError(thrown);
      this.#attempt = undefined;
      this.#become('failed', failure);
      return failure;
    }
  }

  async #loadStaged(next: ModelConfiguration): Promise<Staged> {
    // A model that is not loaded takes a place when it is.
    const reservation = await this.#reserve(next, this.#published !== undefined);
    try {
      return { publication: await loadPrivately(this.#services.engine, next), reservation };
    } catch (thrown) {
      reservation[Symbol.dispose]();
      throw thrown;
    }
  }

  #wait<T>(work: Promise<T>, deadlineMs: number, signal: AbortSignal | undefined): Promise<T> {
    const { id, stop } = this.#options;
    const { clock } = this.#services;
    const limitMs = this.#loadTimeoutMs;
    const expired = () => new WavepoolError('MODEL_LOAD_TIMEOUT', `${id} took over ${limitMs} ms`);
    const timeoutMs = limitMs > 0 ? Math.max(1, deadlineMs - clock.now()) : 0;
    return waitFor(work, { clock, timeoutMs, expired, signals: [signal, stop] });
  }

  #publish(publication: Publication): void {
    this.#published = publication;
    this.#generation += 1;
    this.#become('ready');
  }

  #become(state: ModelState, failure?: WavepoolError): void {
    this.#standing = { state, failure };
    this.#options.onChange();
  }

  /** Counts the memory as leaving until `work` has ended. */
  async #leave<T>(work: Promise<T>): Promise<T> {
    this.#leaving.add(work);
    try {
      return await work;
    } finally {
      this.#leaving.delete(work);
    }
  }
}

async function discard({ publication, reservation }: Staged): Promise<void> {
  try {
    await release(publication);
  } finally {
    reservation[Symbol.dispose]();
  }
}
