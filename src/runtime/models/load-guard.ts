/**
 * What loads of one process share: how many models may be resident, and how much memory they must leave free.
 *
 * A load is admitted by a reservation (a place and an amount of memory) that lasts until it has ended, so that loads
 * of different models run side by side without together exceeding what each was granted. What must go for it goes by
 * try-acquire, least recently used first: busy models, and models that somebody waits for, are never taken. It is
 * decided in one turn whether a load can be admitted at all; when it cannot, nothing is evicted.
 */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { WavepoolError } from '../../core/errors.ts';
import type { ManagementLease } from '../slots/leases.ts';
import type { ModelConfiguration } from './model-configuration.ts';
import type { ModelPolicy } from './slot-policy.ts';

/** Without a plan, a load is estimated to need the size of its weights times this factor, because loading needs buffers. */
const SPREAD = 1.5;
/** Without a plan, the sessions of a model are estimated to need this. */
const SESSIONS_BYTES = 128 * 1024 ** 2;

/** What the load of one model has to know about another one. */
export interface Resident {
  readonly id: string;
  /** Whether it counts as loaded: false from the start of its retirement. */
  readonly resident: boolean;
  /** Time of the last load or run. */
  readonly lastUsedMs: number;
  readonly residentBytes: number;
  /** Takes the whole model, if nothing runs on it and nobody waits for it. */
  tryAcquire(): ManagementLease | undefined;
  /** Frees the model. The caller holds that lease. Resolves when the memory is free. */
  retire(): Promise<void>;
}

export interface LoadGuardOptions {
  /** Most resident models; 0 = unbounded. */
  readonly maxLoadedModels: number;
  /** Memory that a load must leave free; 0 = memory is not checked. */
  readonly minFreeMemoryBytes: number;
  readonly freeMemoryBytes: () => number;
  readonly residents: () => Iterable<Resident>;
  /** Plans the memory of a load; if it is undefined, the size of the file is used. */
  readonly plan: ModelPolicy['plan'];
}

export interface LoadRequest {
  readonly id: string;
  readonly configuration: ModelConfiguration;
  /** Whether it is a copy beside the loaded model: then it takes no place, and nothing is evicted for it. */
  readonly staging: boolean;
}

/** A load whose memory was estimated. */
interface Sized {
  readonly id: string;
  /** undefined = it cannot be told, or memory is not checked. */
  readonly bytes: number | undefined;
  readonly staging: boolean;
}

/** Held by a load until it has ended. */
export interface LoadReservation extends Disposable {
  /** For a load that nobody wants any more: its place is free at once, its memory only when the load has ended. */
  giveUpPlace(): void;
}

interface Reserved {
  readonly id: string;
  readonly bytes: number;
  place: boolean;
}

interface Victim {
  readonly model: Resident;
  readonly lease: ManagementLease;
}

export class LoadGuard {
  readonly #options: LoadGuardOptions;
  readonly #reserved = new Set<Reserved>();

  constructor(options: LoadGuardOptions) {
    this.#options = options;
  }

  /**
   * Admits a load, evicting idle models for it where that is enough.
   * @throws {WavepoolError} BUSY_TIMEOUT when the limit is reached and no model can go, INSUFFICIENT_MEMORY
   */
  async admit({ id, configuration, staging }: LoadRequest): Promise<LoadReservation> {
    const bytes = this.#watchesMemory ? await this.#estimate(configuration) : undefined;
    const request = { id, bytes, staging };
    const victims = this.#chooseVictims(request);
    const reserved = { id, bytes: bytes ?? 0, place: !staging };
    this.#reserved.add(reserved);
    try {
      // They are retired in this turn, so none of them is resident any more when the next load looks.
      await Promise.all(victims.map(evict));
      if (victims.length > 0) this.#assertMemory(request);
    } catch (thrown) {
      this.#reserved.delete(reserved);
      throw thrown;
    }
    return {
      giveUpPlace: () => {
        reserved.place = false;
      },
      [Symbol.dispose]: () => void this.#reserved.delete(reserved),
    };
  }

  get #watchesMemory(): boolean {
    return this.#options.minFreeMemoryBytes > 0;
  }

  /** The planned bytes, or else an estimate from the size of the file; undefined when there is neither. */
  async #estimate(configuration: ModelConfiguration): Promise<number | undefined> {
    const plan = await this.#options.plan(configuration);
    if (plan !== undefined) return plan.weightBytes + configuration.slots * plan.sessionBytes;
    const weights = await fileBytes(configuration.path);
    return weights === undefined ? undefined : weights * SPREAD + SESSIONS_BYTES;
  }

  /** Takes leases on the models that have to go. @throws as `admit`; no lease is kept then. */
  #chooseVictims(request: Sized): Victim[] {
    const victims: Victim[] = [];
    try {
      let places = request.staging ? 0 : this.#placesMissing(request.id);
      let bytes = this.#bytesMissing(request);
      for (const model of request.staging ? [] : this.#leastRecentlyUsed(request.id)) {
        if (places <= 0 && bytes <= 0) break;
        const lease = model.tryAcquire();
        if (!lease) continue;
        victims.push({ model, lease });
        places -= 1;
        bytes -= model.residentBytes;
      }
      if (places > 0) throw this.#noVictim(request.id);
      if (bytes > 0) throw this.#tooLittleMemory(request);
      return victims;
    } catch (thrown) {
      for (const { lease } of victims) lease.release();
      throw thrown;
    }
  }

  #placesMissing(id: string): number {
    const limit = this.#options.maxLoadedModels;
    if (limit === 0) return 0;
    const loading = [...this.#reserved].filter((each) => each.place && each.id !== id).length;
    return this.#leastRecentlyUsed(id).length + loading - (limit - 1);
  }

  #leastRecentlyUsed(exceptId: string): Resident[] {
    return [...this.#options.residents()]
      .filter((model) => model.resident && model.id !== exceptId)
      .toSorted((a, b) => a.lastUsedMs - b.lastUsedMs);
  }

  /** Other loads in progress may have allocated a part of their memory already. It is counted in full, to be safe. */
  #bytesMissing({ bytes }: Sized, own = 0): number {
    if (!this.#watchesMemory || bytes === undefined) return 0;
    const promised = [...this.#reserved].reduce((sum, each) => sum + each.bytes, 0) - own;
    const { minFreeMemoryBytes, freeMemoryBytes } = this.#options;
    return bytes + minFreeMemoryBytes + promised - freeMemoryBytes();
  }

  #assertMemory(request: Sized): void {
    if (this.#bytesMissing(request, request.bytes) > 0) throw this.#tooLittleMemory(request);
  }

  #noVictim(id: string): WavepoolError {
    const { maxLoadedModels } = this.#options;
    return new WavepoolError(
      'BUSY_TIMEOUT',
      `no evictable victim: ${maxLoadedModels} models may be loaded, and none of the others is idle; ${id} was not loaded`,
    );
  }

  #tooLittleMemory({ id, bytes = 0 }: Sized): WavepoolError {
    const mebibytes = (amount: number) => Math.round(amount / 1024 ** 2);
    const { minFreeMemoryBytes, freeMemoryBytes } = this.#options;
    return new WavepoolError(
      'INSUFFICIENT_MEMORY',
      `${id} needs ${mebibytes(bytes)} MiB with ${mebibytes(minFreeMemoryBytes)} MiB left free; ` +
        `${mebibytes(freeMemoryBytes())} MiB are free`,
    );
  }
}

async function evict({ model, lease }: Victim): Promise<void> {
  try {
    await model.retire();
  } finally {
    lease.release();
  }
}

/** A folder means its model.gguf, else its only GGUF file, else all of it; several GGUF files mean nothing certain. */
async function fileBytes(place: string): Promise<number | undefined> {
  const found = await stat(place).catch(() => undefined);
  if (!found?.isDirectory()) return found?.size;
  const names = await readdir(place);
  const gguf = names.filter((name) => name.endsWith('.gguf'));
  const chosen = gguf.find((name) => name === 'model.gguf') ?? (gguf.length === 1 ? gguf[0] : '');
  if (chosen) return (await stat(path.join(place, chosen))).size;
  if (gguf.length > 1) return undefined;
  const files = await readdir(place, { recursive: true, withFileTypes: true });
  const sizes = files
    .filter((file) => file.isFile())
    .map(async (file) => (await stat(path.join(file.parentPath, file.name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
