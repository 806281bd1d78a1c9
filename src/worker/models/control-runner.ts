/** Runs commands about models on the runtime of this process. */

import { WavepoolError } from '../../core/errors.ts';
import type {
  ControlCommand,
  ControlledModel,
  ControlResult,
  ModelSettings,
} from '../../core/worker/control.ts';
import type { ManagementResult, ModelManagement } from '../../runtime/models/management.ts';
import type { ModelConfiguration } from '../../runtime/models/model-configuration.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import { assertSlotsAdmitted, mergeSettings } from './model-settings.ts';

/** What the runner needs of `Runtime`. */
export interface ManagedRuntime extends ModelManagement {
  readonly entries: ReadonlyMap<string, ModelEntry>;
}

export interface ControlRunnerOptions {
  readonly runtime: ManagedRuntime;
  /** What `replace` falls back to: how the model was started, or how one that nobody has yet would be. */
  readonly defaultsOf: (model: string) => Promise<ModelConfiguration>;
  /** Slot counts up to this one need no evidence. */
  readonly unvalidatedSlots: number;
  /** Slots that evidence admits for a model. @defaultValue one */
  readonly admits?: ((model: string) => number) | undefined;
  /** Called when a model is ready whose queue this worker may not serve yet. */
  readonly serve: (entry: ModelEntry) => Promise<void>;
}

/** A promise that is not waited for by whoever awaits its holder. */
interface Begun {
  readonly ended: Promise<ControlResult>;
}

export class ControlRunner {
  readonly #options: ControlRunnerOptions;
  /** Resolves when the latest command has taken its place in the queue of its model. */
  #placed: Promise<unknown> = Promise.resolve();

  constructor(options: ControlRunnerOptions) {
    this.#options = options;
  }

  /**
   * Commands take their places at the models in the order of the calls; each then waits for its model alone.
   * @param signal ends the wait for the model; what has begun is finished
   * @throws {WavepoolError} MODEL_UNKNOWN, INVALID_REQUEST, SLOTS_UNSUPPORTED, CAPACITY_UNVALIDATED, INSUFFICIENT_MEMORY,
   *   BUSY_TIMEOUT, BUSY_OVERDUE, CANCELLED, SHUTTING_DOWN, or why a load failed
   */
  async run(command: ControlCommand, signal: AbortSignal): Promise<ControlResult> {
    const begun = this.#placed.then(() => this.#begin(command, signal));
    this.#placed = begun.catch(() => undefined);
    return (await begun).ended;
  }

  /** Returns when the command has its place. */
  async #begin(command: ControlCommand, signal: AbortSignal): Promise<Begun> {
    signal.throwIfAborted();
    const { runtime } = this.#options;
    switch (command.operation) {
      case 'load':
        return this.#beginLoad(command.model, command.settings, signal);
      case 'reconfigure':
        return this.#beginReconfigure(command, signal);
      case 'unload':
        return { ended: runtime.unload(command.model, { signal }).then(resultOf) };
      case 'unload-many':
        return { ended: this.#unloadMany(command.models, signal) };
      default:
        return command satisfies never;
    }
  }

  async #beginLoad(id: string, settings: ModelSettings, signal: AbortSignal): Promise<Begun> {
    const { runtime } = this.#options;
    this.#assertAdmitted(id, settings);
    if (!runtime.entries.has(id)) {
      const defaults = await this.#options.defaultsOf(id);
      runtime.register(id, mergeSettings(defaults, settings));
    } else if (Object.values(settings).some((value) => value !== undefined)) {
      const merge = (current: ModelConfiguration) => mergeSettings(current, settings);
      return { ended: this.#served(runtime.reconfigure(id, merge, { signal })) };
    }
    return { ended: this.#served(runtime.load(id, { signal })) };
  }

  async #beginReconfigure(
    command: Extract<ControlCommand, { operation: 'reconfigure' }>,
    signal: AbortSignal,
  ): Promise<Begun> {
    const { runtime } = this.#options;
    const { model, settings, replace, strategy } = command;
    this.#assertAdmitted(model, settings);
    if (!runtime.entries.has(model)) throw new WavepoolError('MODEL_UNKNOWN', model);
    const defaults = replace ? await this.#options.defaultsOf(model) : undefined;
    const change = (current: ModelConfiguration) => mergeSettings(defaults ?? current, settings);
    return { ended: this.#served(runtime.reconfigure(model, change, { signal, strategy })) };
  }

  async #unloadMany(models: readonly string[] | 'all', signal: AbortSignal) {
    const { runtime } = this.#options;
    const { unloaded, notFound } = await runtime.unloadMany(models, { signal });
    const entries = unloaded.flatMap((id) => runtime.entries.get(id) ?? []);
    return { models: entries.map((entry) => describe(entry, false)), notFound: [...notFound] };
  }

  async #served(managed: Promise<ManagementResult>): Promise<ControlResult> {
    const result = await managed;
    await this.#options.serve(result.entry);
    return resultOf(result);
  }

  #assertAdmitted(model: string, { slots }: ModelSettings): void {
    if (slots !== undefined) {
      const { unvalidatedSlots, admits } = this.#options;
      assertSlotsAdmitted(model, slots, unvalidatedSlots, admits?.(model));
    }
  }
}

function resultOf({ entry, reconfigured }: ManagementResult): ControlResult {
  return { models: [describe(entry, reconfigured)], notFound: [] };
}

function describe(entry: ModelEntry, reconfigured: boolean): ControlledModel {
  const { id, state, loaded, generation } = entry.snapshot();
  return { id, state, loaded, reconfigured, generation };
}
