/** The files of a folder, for browsers. They are listed once, and read and compressed at the first request. */
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { WavepoolError } from '../../core/errors.ts';

interface Content {
  readonly plain: Buffer;
  /** Undefined when compression would save nothing. */
  readonly packed: Buffer | undefined;
}

const compress = promisify(gzip);
const PACKABLE = new Set(['.js', '.css', '.svg', '.json', '.txt']);

export class FileSet {
  /** The names are sorted, with `/` between folders. */
  readonly names: readonly string[];
  readonly #folder: string;
  readonly #contents = new Map<string, Promise<Content>>();

  constructor(folder: string) {
    this.#folder = folder;
    this.names = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name).slice(join(folder, sep).length))
      .map((name) => name.replaceAll(sep, '/'))
      .toSorted();
  }

  /**
   * @param cacheControl the value of the header
   * @throws {WavepoolError} ROUTE_NOT_FOUND
   */
  async send(req: Request, res: Response, name: string, cacheControl: string): Promise<void> {
    // Only listed names are served, so no name leads out of the folder.
    if (!this.names.includes(name)) throw new WavepoolError('ROUTE_NOT_FOUND', name);
    const { plain, packed } = await this.#content(name);
    res.type(extname(name)).set('Cache-Control', cacheControl).vary('Accept-Encoding');
    if (packed === undefined || req.acceptsEncodings('gzip') === false) {
      res.send(plain);
      return;
    }
    res.set('Content-Encoding', 'gzip').send(packed);
  }

  #content(name: string): Promise<Content> {
    const known = this.#contents.get(name);
    if (known !== undefined) return known;
    const reading = read(join(this.#folder, name));
    this.#contents.set(name, reading);
    reading.catch(() => this.#contents.delete(name));
    return reading;
  }
}

async function read(path: string): Promise<Content> {
  const plain = await readFile(path);
  if (!PACKABLE.has(extname(path))) return { plain, packed: undefined };
  const packed = await compress(plain);
  return { plain, packed: packed.length < plain.length ? packed : undefined };
}
