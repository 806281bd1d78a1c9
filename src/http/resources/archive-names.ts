/** Safe names for the files in an archive. Unpacking it overwrites no file and writes nothing outside of its folder. */
import path from 'node:path';

const MAX_PART_BYTES = 200;
const MAX_PARTS = 32;
/** Control characters, and characters and device names that Windows does not allow in file names. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these must be replaced
const FORBIDDEN = /[\u0000-\u001f\u007f<>:"|?*\\]/g;
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

export class ArchiveNames {
  readonly #taken = new Set<string>();

  /**
   * `sub/talk.mp3` becomes `sub/talk.txt`, or `sub/talk.mp3.txt` when that is taken, or else it gets a number.
   * @param source the name of the input, with its folders
   */
  add(source: string, extension: string, index: number): string {
    const parts = source.split('/').map(cleanPart).filter(isPart).slice(-MAX_PARTS);
    const file = parts.pop() ?? 'audio';
    const folder = parts.map((part) => `${part}/`).join('');
    const stem = path.posix.parse(file).name;
    for (const name of [stem, file]) {
      if (this.#take(`${folder}${name}.${extension}`)) return `${folder}${name}.${extension}`;
    }
    for (let attempt = 0; ; attempt++) {
      const name = `${folder}${file}~${index + attempt}.${extension}`;
      if (this.#take(name)) return name;
    }
  }

  /** Compares without case, because some file systems do not tell upper from lower case. */
  #take(name: string): boolean {
    const folded = name.toLowerCase().normalize('NFC');
    if (this.#taken.has(folded)) return false;
    this.#taken.add(folded);
    return true;
  }
}

function isPart(part: string): boolean {
  return part !== '';
}

function cleanPart(part: string): string {
  // Encoding and decoding replaces single surrogates, which cannot be written as UTF-8.
  const plain = Buffer.from(part)
    .toString('utf8')
    .normalize('NFC')
    .replace(FORBIDDEN, '_')
    .replace(/^[. ]+|[. ]+$/g, '');
  return cutToBytes(DEVICE.test(plain) ? `_${plain}` : plain);
}

function cutToBytes(text: string): string {
  if (Buffer.byteLength(text) <= MAX_PART_BYTES) return text;
  const extension = path.posix.extname(text).slice(0, 16);
  let cut = '';
  for (const character of text) {
    if (Buffer.byteLength(cut + character + extension) > MAX_PART_BYTES) break;
    cut += character;
  }
  return cut + extension;
}
