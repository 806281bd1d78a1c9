/** The models folder as commands use it: what is missing is pulled, with its progress on the terminal. */
import type { Config } from '../../core/config.ts';
import { WavepoolError } from '../../core/errors.ts';
import { NativeEngine } from '../../engine/native-engine.ts';
import type { Quantization } from '../../models/catalogue/quantization.ts';
import type { InstalledModel } from '../../models/installed/installed-models.ts';
import {
  type ImportOptions,
  ModelStore,
  type PullOptions,
  type PullProgress,
} from '../../models/store/model-store.ts';
import { type CliContext, printLine } from '../terminal/context.ts';
import { formatBytes } from '../terminal/text.ts';

export function openModels(config: Config, context: CliContext): ModelStore {
  return new ModelStore({
    directory: config.modelsDir,
    environment: context.environment,
    inspect: (file) => inspectWeights(file, config),
  });
}

/**
 * Lets native code lay out the model, which it refuses for weights of another shape; no graph is built.
 * @throws {WavepoolError} MODEL_FILE_INVALID
 */
async function inspectWeights(file: string, { addonPath }: Config): Promise<void> {
  try {
    const engine = new NativeEngine({ addon: addonPath });
    await engine.planModel(file, INSPECTION);
  } catch (thrown) {
    // Without the addon, or for reasons of this machine, the file is looked at when it is loaded.
    if (thrown instanceof WavepoolError && thrown.code !== 'MODEL_FILE_INVALID') return;
    throw thrown;
  }
}

const INSPECTION = { mode: 'offline', threads: 1, maxBatch: 1 } as const;

export interface PullViewOptions {
  readonly quiet: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The model, downloaded when it is not installed.
 * @throws {WavepoolError} MODEL_UNKNOWN, MODEL_DOWNLOAD_FAILED, MODEL_FILE_INVALID, CANCELLED
 */
export async function pullModel(
  store: ModelStore,
  id: string,
  context: CliContext,
  { quiet, signal }: PullViewOptions,
): Promise<InstalledModel> {
  const present = await store.locate(id);
  if (present !== undefined) return present;
  return withView({ quiet, signal }, context, (options) => store.pull(id, options));
}

/** As `pullModel`, of a form that is made here. */
export function pullQuantized(
  store: ModelStore,
  base: string,
  type: Quantization,
  context: CliContext,
  options: PullViewOptions,
): Promise<InstalledModel> {
  return withView(options, context, (each) => store.pullQuantized(base, type, each));
}

/** Weights that lie elsewhere: see `ModelStore.import`. */
export function importModel(
  store: ModelStore,
  location: string,
  { id, quantize }: Pick<ImportOptions, 'id' | 'quantize'>,
  context: CliContext,
  options: PullViewOptions,
): Promise<InstalledModel> {
  return withView(options, context, (each) => store.import(location, { ...each, id, quantize }));
}

async function withView(
  { quiet, signal }: PullViewOptions,
  context: CliContext,
  work: (options: PullOptions) => Promise<InstalledModel>,
): Promise<InstalledModel> {
  const view = new PullView(context, quiet);
  try {
    return await work({
      onProgress: (progress) => view.show(progress),
      ...(signal === undefined ? {} : { signal }),
    });
  } finally {
    view.close();
  }
}

/** Each as `pullModel`, one after the other. */
export async function pullModels(
  store: ModelStore,
  ids: readonly string[],
  context: CliContext,
  options: PullViewOptions,
): Promise<InstalledModel[]> {
  const models: InstalledModel[] = [];
  for (const id of ids) models.push(await pullModel(store, id, context, options));
  return models;
}

/** One line that is rewritten on a terminal; one line per phase elsewhere. */
class PullView {
  readonly #context: CliContext;
  readonly #quiet: boolean;
  #phase: PullProgress['phase'] | undefined;
  #lineIsOpen = false;
  #lastPercent = -1;

  constructor(context: CliContext, quiet: boolean) {
    this.#context = context;
    this.#quiet = quiet;
  }

  show(progress: PullProgress): void {
    if (this.#quiet) return;
    const percent = Math.floor((100 * progress.receivedBytes) / Math.max(1, progress.totalBytes));
    const changed = progress.phase !== this.#phase;
    if (!changed && (!this.#isLive() || percent === this.#lastPercent)) return;
    this.#phase = progress.phase;
    this.#lastPercent = percent;
    const line = describePull(progress, this.#isLive() ? percent : undefined);
    if (!this.#isLive() || progress.phase === 'passed-over') {
      this.close();
      printLine(this.#context.stderr, line);
      return;
    }
    this.#context.stderr.write(`\r\u001b[K${line}`);
    this.#lineIsOpen = true;
  }

  close(): void {
    if (this.#lineIsOpen) this.#context.stderr.write('\n');
    this.#lineIsOpen = false;
  }

  #isLive(): boolean {
    return this.#context.stderr.isTTY === true;
  }
}

function describePull(progress: PullProgress, percent: number | undefined): string {
  const { id, phase, totalBytes } = progress;
  switch (phase) {
    case 'waiting':
      return `${id}: another process is pulling it, waiting`;
    case 'downloading':
      return `${id}: downloading ${formatBytes(totalBytes)}${percent === undefined ? '' : `, ${percent} %`}`;
    case 'passed-over':
      return `${id}: passed over: ${progress.reason ?? ''}`;
    case 'converting':
      return `${id}: verifying and converting`;
    case 'installed':
      return `${id}: installed`;
    default: {
      const unknown: never = phase;
      return `${id}: ${String(unknown)}`;
    }
  }
}
