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

/** Without a plan, a load is taken to need the size of its weights times this, for what loading needs on the way, … */
const SPREAD = 1.5;
/** … and this for its sessions. */
const SESSIONS_BYTES = 128 * 1024 ** 2;

/** A model, as far as another one's load is concerned. */
export interface Resident {
  readonly id: string;
  /** Logically: false from the start of its retirement. */
  readonly resident: boolean;
  /** Of the last load or run. */
  readonly lastUsedMs: number;
  readonly residentBytes: number;
  /** The whole model, if nothing runs on it and nobody waits for it. */
  tryAcquire(): ManagementLease | undefined;
  /** Under that lease; resolves when the memory is free. */
  retire(): Promise<void>;
}

export interface LoadGuardOptions {
  /** Most resident models; 0 = unbounded. */
  readonly maxLoadedModels: number;
  /** What a load must leave free; 0 = memory is not looked at. */
  readonly minFreeMemoryBytes: number;
  readonly freeMemoryBytes: () => number;
  readonly residents: () => Iterable<Resident>;
  /** Tells what a load takes, where that is known; otherwise the size of the file does. */
  readonly plan: ModelPolicy['plan'];
}

export interface LoadRequest {
  readonly id: string;
  readonly configuration: ModelConfiguration;
  /** A copy beside what the model has already: it takes no place, and nothing is evicted for it. */
  readonly staging: boolean;
}

/** A request whose memory was estimated; undefined = it cannot be told, or memory is not looked at. */
interface Sized {
  readonly id: string;
  readonly bytes: number | undefined;
  readonly staging: boolean;
}

/** Held by a load until it has ended. */
export interface LoadReservation extends Disposable {
  /** The load's outcome is not wanted any more: its place is free, its memory is not yet. */
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
      // Retired in this turn: none of them is resident any more when the next load looks.
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

  /** The planned bytes, else what the size of the file suggests; undefined where neither can be told. */
  async #estimate(configuration: ModelConfiguration): Promise<number | undefined> {
    const plan = await this.#options.plan(configuration);
    if (plan !== undefined) return plan.weightBytes + configuration.slots * plan.sessionBytes;
    const weights = await fileBytes(configuration.path);
    return weights === undefined ? undefined : weights * SPREAD + SESSIONS_BYTES;
  }

  /** Leases on the models that have to go. @throws as `admit`, with no lease kept. */
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

  /** Other loads in progress may have allocated a part of theirs: counted in full, to be safe. */
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
