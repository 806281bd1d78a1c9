/**
 * Names of outputs. An input `sub/talk.mp3` becomes `sub/talk.txt`, `sub/talk.srt` …; inputs of one folder that would
 * share an output (`a.wav`, `a.mp3`) all keep their extension (`a.wav.txt`, `a.mp3.txt`). Names are compared without
 * case and accents' encoding, since the folder may move to a file system that ignores them.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import {
  fileExtension,
  RESULT_FORMATS,
  type ResultFormat,
} from '../core/results/result-formats.ts';

/** Most file systems allow 255 bytes a name. */
const MAX_NAME_BYTES = 255;
const HASH_CHARACTERS = 8;

export interface NamedInput {
  /** File name with its extension. */
  readonly fileName: string;
  /** What tells apart two inputs with the same file name, for example the absolute path. */
  readonly identity: string;
}

type Level = 'stem' | 'full' | 'hashed';

interface Candidate extends NamedInput {
  level: Level;
}

/**
 * One distinct output name per input, in the order of the inputs, without the format's extension.
 * @param folderNames sub-folders of the same output folder, which no output file may be named like.
 */
export function outputNames(
  inputs: readonly NamedInput[],
  folderNames: readonly string[] = [],
): string[] {
  const folders = new Set(folderNames.map(folded));
  const candidates = inputs.map((input): Candidate => ({ ...input, level: 'stem' }));
  let crowded = candidates.length > 0;
  while (crowded) {
    crowded = false;
    for (const candidate of clashing(candidates, folders)) {
      const next = nextLevel(candidate.level);
      if (next === undefined) continue;
      candidate.level = next;
      crowded = true;
    }
  }
  return candidates.map(nameOf);
}

/** `NAME.EXTENSION`, shortened with a hash when it is longer than a file system allows. */
export function outputFileName(name: string, format: ResultFormat): string {
  const extension = `.${fileExtension(format)}`;
  if (Buffer.byteLength(name + extension) <= MAX_NAME_BYTES) return name + extension;
  const tail = `~${shortHash(name)}${extension}`;
  return cutToBytes(name, MAX_NAME_BYTES - Buffer.byteLength(tail)) + tail;
}

/** Top-level folder in the output directory for each of several input directories. */
export function folderNames(directories: readonly string[]): string[] {
  const names = directories.map((directory) => path.basename(directory) || 'root');
  const count = new Map<string, number>();
  for (const name of names) count.set(folded(name), (count.get(folded(name)) ?? 0) + 1);
  return names.map((name, at) =>
    (count.get(folded(name)) ?? 0) > 1 ? hashed(name, directories[at] ?? '') : name,
  );
}

/** Case and the encoding of accents do not make a name different everywhere. */
function folded(name: string): string {
  return name.normalize('NFC').toLowerCase().normalize('NFC');
}

function clashing(
  candidates: readonly Candidate[],
  folders: ReadonlySet<string>,
): readonly Candidate[] {
  return grouped(candidates, (candidate) => folded(nameOf(candidate))).flatMap((group) => {
    if (group.length === 1) return group.filter((one) => isFolder(nameOf(one), folders));
    const stems = group.filter(({ level }) => level === 'stem');
    return stems.length > 0 ? stems : sameBytes(group);
  });
}

/** Names that differ only in case or encoding are distinct here once they carry their extension. */
function sameBytes(group: readonly Candidate[]): Candidate[] {
  return grouped(group, nameOf)
    .filter((same) => same.length > 1)
    .flat();
}

function grouped<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

function isFolder(name: string, folders: ReadonlySet<string>): boolean {
  if (folders.size === 0) return false;
  return RESULT_FORMATS.some((format) => folders.has(folded(outputFileName(name, format))));
}

function nextLevel(level: Level): Level | undefined {
  if (level === 'stem') return 'full';
  return level === 'full' ? 'hashed' : undefined;
}

function nameOf({ fileName, identity, level }: Candidate): string {
  if (level === 'stem') return path.parse(fileName).name;
  return level === 'full' ? fileName : hashed(fileName, identity);
}

function hashed(name: string, identity: string): string {
  const tail = `~${shortHash(identity)}`;
  return cutToBytes(name, MAX_NAME_BYTES - Buffer.byteLength(tail)) + tail;
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, HASH_CHARACTERS);
}

/** The longest start of `text` of at most `bytes` bytes of UTF-8 that ends between two characters. */
function cutToBytes(text: string, bytes: number): string {
  let used = 0;
  let cut = '';
  for (const character of text) {
    used += Buffer.byteLength(character);
    if (used > bytes) break;
    cut += character;
  }
  return cut;
}
