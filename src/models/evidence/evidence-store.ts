/**
 * Keeps evidence in files: MODELS_DIR/ID/evidence/MODE.json beside the weights, MODELS_DIR/evidence/framework-BUILD.json for all
 * models of a build, and the same in the package's own `evidence` folder, for the build of a release. Files are written
 * whole or not at all; one that cannot be read as a record admits nothing, and says so.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type {
  EvidenceIdentity,
  FrameworkEvidence,
  ModelEvidence,
} from '../../core/evidence/evidence.ts';
import {
  EvidenceMode,
  parseFrameworkEvidence,
  parseModelEvidence,
} from '../../core/evidence/evidence.ts';
import { parseJson } from '../../core/lenient-parse.ts';
import { packageFolder } from '../../core/package-folder.ts';
import { type Admission, admittedCount } from './admission.ts';

export interface EvidenceStoreOptions {
  readonly modelsDir: string;
  /** The folder of the evidence that came with the package. @defaultValue its `evidence` folder */
  readonly shippedDir?: string | undefined;
}

export interface EvidenceFile<Evidence> {
  readonly path: string;
  readonly record: Evidence | undefined;
  /** The reason why there is no record though there is a file. */
  readonly problem?: string | undefined;
}

export interface ModelAdmission extends Admission {
  /** The record that was looked at, whether or not it counts. */
  readonly record: ModelEvidence | undefined;
}

export class EvidenceStore {
  readonly #modelsDir: string;
  readonly #shippedDir: string;

  constructor({ modelsDir, shippedDir = packageFolder('evidence') }: EvidenceStoreOptions) {
    this.#modelsDir = modelsDir;
    this.#shippedDir = shippedDir;
  }

  /** The store that a file of weights, MODELS_DIR/ID/FILE, belongs to. */
  static ofWeights(file: string): EvidenceStore {
    return new EvidenceStore({ modelsDir: path.dirname(path.dirname(path.resolve(file))) });
  }

  modelFile(id: string, mode: EvidenceMode): string {
    return path.join(this.#modelsDir, id, 'evidence', `${mode}.json`);
  }

  /** The folder for the starts of a validation that is under way. */
  startsFolder(id: string, mode: EvidenceMode): string {
    return path.join(this.#modelsDir, id, 'evidence', `${mode}-starts`);
  }

  frameworkFile(build: string): string {
    return path.join(this.#modelsDir, 'evidence', `framework-${build}.json`);
  }

  model(id: string, mode: EvidenceMode): Promise<EvidenceFile<ModelEvidence>> {
    return readRecord(this.modelFile(id, mode), parseModelEvidence);
  }

  /** Tells whether there is any record that `admitted` could look at. */
  async holds(id: string, mode: EvidenceMode): Promise<boolean> {
    const files = [this.modelFile(id, mode), this.#shippedFile(id, mode)];
    const found = await Promise.all(files.map((file) => stat(file).then(Boolean, () => false)));
    return found.includes(true);
  }

  /** Deletes records that are about other weights than these: nothing can make them count again. */
  async forgetOthers(id: string, checkpointSha256: string): Promise<void> {
    for (const mode of EvidenceMode.options) {
      const { path: file, record } = await this.model(id, mode);
      if (record === undefined || record.identity.checkpointSha256 === checkpointSha256) continue;
      await rm(file, { force: true });
    }
  }

  /** Reads what was recorded here; without that, what came with the package. */
  async framework(build: string): Promise<EvidenceFile<FrameworkEvidence>> {
    const own = await readRecord(this.frameworkFile(build), parseFrameworkEvidence);
    if (own.record !== undefined) return own;
    const file = path.join(this.#shippedDir, `framework-${build}.json`);
    const shipped = await readRecord(file, parseFrameworkEvidence);
    return shipped.record === undefined ? own : shipped;
  }

  writeModel(record: ModelEvidence): Promise<void> {
    const { model, mode } = record.identity;
    return writeWhole(this.modelFile(model, mode), record);
  }

  writeFramework(record: FrameworkEvidence): Promise<void> {
    return writeWhole(this.frameworkFile(record.build), record);
  }

  /** Takes the better of what was validated here and what came with the package. */
  async admitted(identity: EvidenceIdentity, batch: number): Promise<ModelAdmission> {
    const { model: id, mode, build } = identity;
    const [own, shipped, framework] = await Promise.all([
      this.model(id, mode),
      readRecord(this.#shippedFile(id, mode), parseModelEvidence),
      this.framework(build),
    ]);
    const admissions = [own, shipped].map(({ record, problem }): ModelAdmission => {
      const question = { identity, batch, model: record, framework: framework.record };
      const { count, reason } = admittedCount(question);
      return { count, reason: problem ?? reason, record };
    });
    const [here, packed] = admissions;
    if (here === undefined || packed === undefined) throw new RangeError('two sources of evidence');
    // Without a record of this machine, the reason that the package gives is the better one, too.
    const nothingHere = own.record === undefined && own.problem === undefined;
    const better = packed.count > here.count || (nothingHere && packed.record !== undefined);
    const best = better ? packed : here;
    if (framework.problem === undefined || best.count > 1) return best;
    return { ...best, reason: framework.problem };
  }

  #shippedFile(id: string, mode: EvidenceMode): string {
    return path.join(this.#shippedDir, 'models', id, `${mode}.json`);
  }
}

const ABSENT: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR']);

async function readRecord<Evidence>(
  file: string,
  parse: (raw: unknown) => Evidence | undefined,
): Promise<EvidenceFile<Evidence>> {
  const text = await readFile(file, 'utf8').catch((thrown: unknown) => {
    if (thrown instanceof Error && 'code' in thrown && ABSENT.has(String(thrown.code)))
      return undefined;
    throw thrown;
  });
  if (text === undefined) return { path: file, record: undefined };
  const record = parse(parseJson(text));
  if (record !== undefined) return { path: file, record };
  return {
    path: file,
    record,
    problem: `${file} is damaged or of another version, and counts for nothing`,
  };
}

/** Readers see the old content or the new, whatever happens meanwhile. */
export async function writeWhole(file: string, content: unknown): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  const temporary = `${file}.${randomUUID()}.tmp`;
  try {
    await writeFile(temporary, `${JSON.stringify(content, undefined, 1)}\n`, { flush: true });
    await rename(temporary, file);
  } finally {
    await rm(temporary, { force: true });
  }
}
