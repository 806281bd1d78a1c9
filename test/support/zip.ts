/** Reads an archive as an unpacking program does: by its central directory. Names as UTF-8, no archives beyond 4 GiB. */
import { inflateRawSync } from 'node:zlib';

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const UTF8_FLAG = 0x0800;
const DEFLATED = 8;

export function readZip(archive: Buffer): Map<string, string> {
  let end = archive.length - 22;
  while (archive.readUInt32LE(end) !== END) end -= 1;
  const files = new Map<string, string>();
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    if (archive.readUInt32LE(at) !== ENTRY) throw new Error('the central directory is damaged');
    const nameEnd = at + 46 + archive.readUInt16LE(at + 28);
    const name = archive.toString('utf8', at + 46, nameEnd);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: plain ASCII is the same in every encoding
    if (!(archive.readUInt16LE(at + 8) & UTF8_FLAG) && !/^[\u0000-\u007f]*$/.test(name)) {
      throw new Error(`${name} is not declared as UTF-8`);
    }
    if (files.has(name)) throw new Error(`${name} comes twice`);
    files.set(name, contentOf(archive, at));
    at = nameEnd + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  return files;
}

function contentOf(archive: Buffer, entry: number): string {
  const local = archive.readUInt32LE(entry + 42);
  const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
  const bytes = archive.subarray(start, start + archive.readUInt32LE(entry + 20));
  const isDeflated = archive.readUInt16LE(entry + 10) === DEFLATED;
  return (isDeflated ? inflateRawSync(bytes) : bytes).toString('utf8');
}
