/** A worker over the fake families in this process: everything but the weights is real. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { vi } from 'vitest';
import { createLogger } from '../../src/core/logger.ts';
import type { ModelStatus, WorkerPresence } from '../../src/core/worker/status.ts';
import { WorkerSettings, type WorkerSettingsInput } from '../../src/core/worker/worker-settings.ts';
import { NativeEngine } from '../../src/engine/native-engine.ts';
import { catalogueEntry } from '../../src/models/catalogue/catalogue.ts';
import { formatRecord, recordSource } from '../../src/models/installed/model-record.ts';
import type { RedisAddress } from '../../src/queue/redis/connection.ts';
import type { Engine } from '../../src/runtime/engine.ts';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { AudioWorker } from '../../src/worker/audio-worker.ts';
import { type FakeModel, writeFakeModel } from '../engine/fake-model.ts';
import { TEST_ADDON } from '../engine/test-addon.ts';
import { HeldEngine } from './held-engine.ts';

export interface FakeWorkerOptions {
  readonly address: RedisAddress;
  /** For weights, results and uploads. */
  readonly folder: string;
  /** Started with these; by id. */
  readonly models: Readonly<Record<string, FakeModel>>;
  /** Of each model. @defaultValue 1 */
  readonly slots?: number;
  /** @defaultValue 4 */
  readonly batch?: number;
  readonly settings?: Partial<WorkerSettingsInput>;
  /** @defaultValue the fake families of the test addon */
  readonly engine?: Engine;
}

export class FakeWorker implements AsyncDisposable {
  readonly worker: AudioWorker;
  readonly #held: Engine | undefined;

  private constructor(
    options: Omit<FakeWorkerOptions, 'models' | 'folder'>,
    rest: {
      settings: WorkerSettings;
      results: LocalResultStore;
    },
  ) {
    this.#held = options.engine;
    const native = new NativeEngine({ addon: TEST_ADDON });
    this.worker = new AudioWorker({
      ...rest,
      engine: options.engine ?? native,
      planner: native,
      logger: createLogger('silent', 'test'),
      report: () => undefined,
    });
  }

  static async start(options: FakeWorkerOptions): Promise<FakeWorker> {
    const settings = fakeSettings(options);
    const results = await LocalResultStore.open(settings.resultsDir);
    const worker = new FakeWorker(options, { settings, results });
    await worker.worker.start();
    return worker;
  }

  /** A model of the worker when this holds of it. */
  model(id: string, holds: (model: ModelStatus) => boolean): Promise<ModelStatus> {
    return vi.waitFor(
      () => {
        const found = this.latest?.runtime.models.find((model) => model.id === id);
        if (found === undefined || !holds(found)) throw new Error(JSON.stringify(found));
        return found;
      },
      { timeout: 20_000, interval: 5 },
    );
  }

  get latest(): WorkerPresence | undefined {
    return this.worker.presence;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#held instanceof HeldEngine) this.#held.openGates();
    await this.worker.close({ deadlineMs: 0 });
  }
}

/** Settings of a worker over weights of the fake families, which are written. */
export function fakeSettings(options: FakeWorkerOptions): WorkerSettings {
  const { address, folder, models, slots = 1, batch = 4, settings = {} } = options;
  const write = (id: string, model: FakeModel): string =>
    writeFakeModel(join(folder, `${id}.gguf`), model);
  return WorkerSettings.parse({
    redis: address,
    resultsDir: join(folder, 'results'),
    uploadsDir: join(folder, 'uploads'),
    models: Object.entries(models).map(([id, model]) => {
      return { id, path: write(id, model), slots, batch, threads: 1 };
    }),
    detector: { id: 'fake-vad', path: write('fake-vad', { architecture: 'fake-vad' }) },
    addonPath: TEST_ADDON,
    logLevel: 'error',
    ...settings,
  });
}

/** Puts weights of the fake family where a model of the catalogue is looked for. */
export async function installFake(modelsDir: string, id: string): Promise<void> {
  const entry = catalogueEntry(id);
  const [origin] = entry.origins;
  if (origin?.kind !== 'files') throw new Error(`${id} is published nowhere`);
  const folder = join(modelsDir, id);
  await mkdir(folder, { recursive: true });
  const bytes = await readFile(writeFakeModel(join(folder, 'model.gguf')));
  const record = {
    id,
    family: entry.family,
    converterVersion: origin.converter.version,
    license: entry.license,
    installedAt: new Date(0).toISOString(),
    weights: {
      bytes: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    },
    sources: origin.sources.map((source) => recordSource(source, '')),
  };
  await writeFile(join(folder, 'model.json'), formatRecord(record));
}
