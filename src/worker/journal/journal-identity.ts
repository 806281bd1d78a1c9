/** Collects everything that the results of a job's segments depend on. If any of it changes, the job gets another journal. */
import { stat } from 'node:fs/promises';
import { sha256OfFile } from '../../core/files/file-hash.ts';
import type { JobData } from '../../core/job/job.ts';
import { packageVersion } from '../../core/package-version.ts';
import type { ModelEntry } from '../../runtime/models/model-entry.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import type { ResolvedInput } from '../../storage/inputs.ts';

/** The version of what is written in a journal. */
const JOURNAL_VERSION = 1;

export interface JournalIdentityServices {
  readonly runtime: Runtime;
  readonly detector: ModelEntry;
}

export class JournalIdentity {
  readonly #services: JournalIdentityServices;
  readonly #checkpoints = new Map<string, Promise<string>>();

  constructor(services: JournalIdentityServices) {
    this.#services = services;
  }

  async of(data: JobData, input: ResolvedInput): Promise<unknown> {
    const { runtime, detector } = this.#services;
    const { task, options, model } = data;
    return {
      version: JOURNAL_VERSION,
      product: packageVersion(),
      build: runtime.engine.build.identity,
      input: await contentOf(data, input),
      task,
      options,
      model: [model, await this.#checkpoint(runtime.entry(model))],
      detector: [detector.id, await this.#checkpoint(detector)],
    };
  }

  /** Weights are large and seldom change: a file is read once for each size and time that it has. */
  async #checkpoint({ configuration: { path } }: ModelEntry): Promise<string> {
    const { size, mtimeMs } = await stat(path);
    const key = JSON.stringify([path, size, mtimeMs]);
    const known = this.#checkpoints.get(key);
    if (known !== undefined) return known;
    const hash = sha256OfFile(path);
    this.#checkpoints.set(key, hash);
    hash.catch(() => this.#checkpoints.delete(key));
    return hash;
  }
}

/** An input that is fetched anew for every attempt may be another one each time, so its bytes are hashed. */
async function contentOf({ input }: JobData, file: ResolvedInput): Promise<unknown> {
  switch (input.kind) {
    case 'path':
      return [input, file.bytes, file.modifiedAtMs];
    case 'upload':
      return [input.kind, input.id, input.rawFormat ?? null];
    case 'url':
    case 'object':
      return [input.kind, await sha256OfFile(file.path), input.rawFormat ?? null];
    default:
      return input satisfies never;
  }
}
