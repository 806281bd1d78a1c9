/**
 * Finds where the weights lie in a model.bin of CTranslate2 (version 6): strings are u16 length, bytes, NUL; each variable is a
 * name, its dimensions, a type, a byte count and the data; aliases follow. Only the index is kept in memory.
 */
import { ByteCursor, type ByteSource, invalidFile } from './byte-source.ts';

const VERSION = 6;
const LONGEST_STRING = 512;
const MOST_VARIABLES = 100_000;
const MOST_DIMENSIONS = 4;

/** A type is a number in the file, which is the index in this list. Other types (bfloat16) are not read here. */
const TYPES = [
  ['f32', 4],
  ['i8', 1],
  ['i16', 2],
  ['i32', 4],
  ['f16', 2],
] as const;
export type CTranslate2Type = (typeof TYPES)[number][0];

export interface CTranslate2Variable {
  readonly name: string;
  /** Outermost first; empty for a scalar. */
  readonly shape: readonly number[];
  readonly type: CTranslate2Type;
  readonly offset: number;
  readonly bytes: number;
}

export interface CTranslate2Model {
  readonly specification: string;
  readonly revision: number;
  readonly variables: ReadonlyMap<string, CTranslate2Variable>;
}

/** @throws {WavepoolError} MODEL_FILE_INVALID */
export async function readCTranslate2(source: ByteSource): Promise<CTranslate2Model> {
  const cursor = new ByteCursor(source);
  const version = await cursor.u32();
  if (version !== VERSION) {
    throw invalidFile(source.name, `is no CTranslate2 model of version ${VERSION}`);
  }
  const specification = await readString(cursor, source.name);
  const revision = await cursor.u32();
  const count = await cursor.u32();
  if (count > MOST_VARIABLES) throw invalidFile(source.name, `lists ${count} variables`);
  const variables = new Map<string, CTranslate2Variable>();
  for (let at = 0; at < count; at++) {
    const variable = await readVariable(cursor, source.name);
    if (variables.has(variable.name)) {
      throw invalidFile(source.name, `has the variable ${variable.name} twice`);
    }
    variables.set(variable.name, variable);
  }
  await skipAliases(cursor, source.name);
  return { specification, revision, variables };
}

/** Tells by its first bytes whether a file is of this format. */
export function isCTranslate2File(start: Uint8Array): boolean {
  const bytes = Buffer.from(start);
  if (bytes.length < 8 || bytes.readUInt32LE() !== VERSION) return false;
  const length = bytes.readUInt16LE(4);
  const name = bytes.subarray(6, 6 + length).toString('latin1');
  return length > 4 && length < 64 && name.endsWith('Spec\0');
}

async function readVariable(cursor: ByteCursor, file: string): Promise<CTranslate2Variable> {
  const name = await readString(cursor, file);
  const rank = await cursor.u8();
  if (rank > MOST_DIMENSIONS) throw invalidFile(file, `${name} has ${rank} dimensions`);
  const shape: number[] = [];
  for (let at = 0; at < rank; at++) shape.push(await cursor.u32());
  const type = TYPES[await cursor.u8()];
  if (type === undefined) throw invalidFile(file, `${name} has a type that is not read here`);
  const bytes = await cursor.u32();
  const [typeName, valueBytes] = type;
  if (shape.reduce((product, dim) => product * dim, valueBytes) !== bytes) {
    throw invalidFile(file, `${name} of shape [${shape}] has ${bytes} bytes`);
  }
  const offset = cursor.position;
  cursor.skip(bytes);
  return { name, shape, type: typeName, offset, bytes };
}

/** Second names of variables, such as the projection's; nobody asks for them here. */
async function skipAliases(cursor: ByteCursor, file: string): Promise<void> {
  const count = await cursor.u32();
  if (count > MOST_VARIABLES) throw invalidFile(file, `lists ${count} aliases`);
  for (let at = 0; at < 2 * count; at++) await readString(cursor, file);
  if (cursor.remaining > 0) throw invalidFile(file, `goes on for ${cursor.remaining} bytes`);
}

async function readString(cursor: ByteCursor, file: string): Promise<string> {
  const length = await cursor.u16();
  if (length < 1 || length > LONGEST_STRING)
    throw invalidFile(file, `has a name of ${length} bytes`);
  const bytes = await cursor.bytes(length);
  if (bytes.at(-1) !== 0) throw invalidFile(file, 'has a name without its end');
  return bytes.subarray(0, -1).toString('latin1');
}
