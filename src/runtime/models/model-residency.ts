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
import type { ModelState } from '../../core/worker/status.ts';
import type { Clock } from '../clock.ts';
import type { Engine } from '../engine.ts';
import { waitFor } from './bounded-wait.ts';
import type { LoadGuard, LoadReservation } from './load-guard.ts';
import type { MemoryEstimate } from './memory-estimate.ts';
import type { ModelConfiguration } from './model-configuration.ts';
import { loadPrivately, type Publication, release } from './publication.ts';

export interface ResidencyOptions {
  readonly id: string;
  readonly configuration: ModelConfiguration;
  readonly engine: Engine;
  readonly clock: Clock;
  readonly guard: LoadGuard;
  readonly estimate: MemoryEstimate;
  /** For configurations that name none; 0 = unbounded. */
  readonly loadTimeoutMs: number;
  /** Ends every wait for a load at once. */
  readonly stop: AbortSignal;
  /** Called in the turn in which a state, a publication or the configuration changed. */
  readonly onChange: () => void;
  /** What fails where nobody waits: freeing what was abandoned. */
  readonly onBackgroundError: (error: unknown) => void;
}

interface Attempt {
  /** Resolves with why it failed, if it did. */
  readonly ended: Promise<WavepoolError | undefined>;
  abandoned: boolean;
  reservation: LoadReservation | undefined;
}

/** Made and not published; the reservation lasts until it is, or is freed. */
export interface Staged {
  readonly publication: Publication;
  readonly reservation: LoadReservation;
}

interface Standing {
  readonly state: ModelState;
  readonly failure: WavepoolError | undefined;
}

export class ModelResidency {
  readonly #options: ResidencyOptions;
  #configuration: ModelConfiguration;
  #standing: Standing = { state: 'unloaded', failure: undefined };
  #published: Publication | undefined;
  #attempt: Attempt | undefined;
  #generation = 0;
  /** Memory that is still to be freed, though nothing of it is published any more. */
  readonly #leaving = new Set<Promise<unknown>>();

  constructor(options: ResidencyOptions) {
    this.#options = options;
    this.#configuration = options.configuration;
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
    const deadlineMs = this.#options.clock.now() + this.#loadTimeoutMs;
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
    this.abandonLoad();
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
  abandonLoad(): void {
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
   * Runs the steps of a replacement as `reconfiguring`; when `prepare` throws, everything is as it was.
   * @param prepare what may still be refused
   * @param commit what follows it; its failures leave the new configuration
   */
  async reconfigure<T>(prepare: () => Promise<T>, commit: (prepared: T) => Promise<void>) {
    const before = this.#standing;
    this.#become('reconfiguring');
    let prepared: T;
    try {
      prepared = await prepare();
    } catch (thrown) {
      // A load that nobody waited for may have ended meanwhile.
      if (this.#published) this.#become('ready');
      else if (this.#attempt) this.#become('loading');
      else if (this.state === 'reconfiguring') this.#become(before.state, before.failure);
      throw thrown;
    }
    this.#become('reconfiguring');
    try {
      await commit(prepared);
    } catch (thrown) {
      if (this.state === 'reconfiguring') {
        if (this.#attempt) this.#become('loading');
        else this.#become('failed', toWavepoolError(thrown));
      }
      throw thrown;
    }
  }

  /** Frees the old pool, then takes the new configuration: nothing is published meanwhile. */
  async replaceBy(next: ModelConfiguration): Promise<void> {
    this.abandonLoad();
    const retired = this.#published;
    this.#published = undefined;
    this.#options.onChange();
    try {
      if (retired) await this.#leave(release(retired));
    } finally {
      this.adjust(next);
    }
  }

  /** What `next` would be, made beside what is published. @throws why it could not be; all is as before. */
  async stage(next: ModelConfiguration): Promise<Staged> {
    const making = this.#stage(next);
    const deadlineMs = this.#options.clock.now() + this.#loadTimeoutMs;
    try {
      return await this.#wait(making, deadlineMs, undefined);
    } catch (thrown) {
      void this.#leave(making.then(discard, () => undefined)).catch(
        this.#options.onBackgroundError,
      );
      throw thrown;
    }
  }

  /** Publishes what was staged in place of the old pool, in one turn; then frees that one. */
  async swap(next: ModelConfiguration, staged: Staged): Promise<void> {
    this.abandonLoad();
    const retired = this.#published;
    this.#configuration = next;
    this.#publish(staged.publication);
    staged.reservation[Symbol.dispose]();
    if (retired) await this.#leave(release(retired));
  }

  /** Memory for something private beside what is published. @throws {WavepoolError} INSUFFICIENT_MEMORY */
  async reserve(next: ModelConfiguration, staging: boolean): Promise<LoadReservation> {
    const { id, guard, estimate } = this.#options;
    const bytes = guard.watchesMemory ? await estimate(next) : undefined;
    return guard.admit({ id, bytes, staging });
  }

  get #loadTimeoutMs(): number {
    return this.#configuration.loadTimeoutMs ?? this.#options.loadTimeoutMs;
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
      using reservation = await this.reserve(configuration, false);
      attempt.reservation = reservation;
      if (attempt.abandoned) return undefined;
      const publication = await loadPrivately(this.#options.engine, configuration);
      if (attempt.abandoned) {
        await release(publication);
      } else {
        this.#attempt = undefined;
        this.#publish(publication);
      }
      return undefined;
    } catch (thrown) {
      if (attempt.abandoned) {
        this.#options.onBackgroundError(thrown);
        return undefined;
      }
      const failure = toWavepoolError(thrown);
      this.#attempt = undefined;
      this.#become('failed', failure);
      return failure;
    }
  }

  async #stage(next: ModelConfiguration): Promise<Staged> {
    // A model that is not loaded takes a place when it is.
    const reservation = await this.reserve(next, this.#published !== undefined);
    try {
      return { publication: await loadPrivately(this.#options.engine, next), reservation };
    } catch (thrown) {
      reservation[Symbol.dispose]();
      throw thrown;
    }
  }

  #wait<T>(work: Promise<T>, deadlineMs: number, signal: AbortSignal | undefined): Promise<T> {
    const { id, clock, stop } = this.#options;
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
