/** Remembers the chosen layouts in MODELS_DIR/ID/tuning.json. The file is a cache: one that cannot be read counts as empty. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { TuningFile, type TuningIdentity, type TuningRecord } from '../../core/evidence/tuning.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { writeWhole } from '../evidence/evidence-store.ts';

/** More machines than this do not share a folder; the oldest is forgotten. */
const MOST_RECORDS = 32;

export class TuningStore {
  readonly #modelsDir: string;

  constructor(modelsDir: string) {
    this.#modelsDir = modelsDir;
  }

  async all(model: string): Promise<readonly TuningRecord[]> {
    const text = await readFile(this.#file(model), 'utf8').catch(() => undefined);
    return TuningFile.safeParse(parseJson(text)).data ?? [];
  }

  async find(identity: TuningIdentity): Promise<TuningRecord | undefined> {
    const records = await this.all(identity.model);
    return records.find((record) => isDeepStrictEqual(record.identity, identity));
  }

  /** Takes the place of one with the same identity. */
  async keep(record: TuningRecord): Promise<void> {
    const { identity } = record;
    const others = (await this.all(identity.model)).filter(
      (other) => !isDeepStrictEqual(other.identity, identity),
    );
    await writeWhole(this.#file(identity.model), [...others, record].slice(-MOST_RECORDS));
  }

  #file(model: string): string {
    return path.join(this.#modelsDir, model, 'tuning.json');
  }
}
