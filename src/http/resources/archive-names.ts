/** Names of files in an archive that somebody will unpack somewhere: nothing leaves the folder, and nothing is overwritten. */
import path from 'node:path';

const MAX_PART_BYTES = 200;
const MAX_PARTS = 32;
/** Devices and control characters of Windows, and what its file names may not hold. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must go
const FORBIDDEN = /[\u0000-\u001f\u007f<>:"|?*\\]/g;
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

export class ArchiveNames {
  readonly #taken = new Set<string>();

  /**
   * `sub/talk.mp3` becomes `sub/talk.txt`, or `sub/talk.mp3.txt` when that is taken, or else it gets a number.
   * @param source how the input is called, with its folders
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

  /** Some file systems do not tell case apart. */
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
  // Half a character cannot be written as UTF-8.
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
