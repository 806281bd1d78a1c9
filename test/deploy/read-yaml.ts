/** Reads the part of YAML that our compose file is written in: maps, lists, flow values, anchors, aliases and merges. */

export type Yaml = string | number | boolean | null | Yaml[] | { [key: string]: Yaml };

interface Line {
  readonly indent: number;
  readonly text: string;
}

/** Throws for everything that it does not know, so that nothing is misread. */
export function readYaml(text: string): Yaml {
  const lines = text.split('\n').flatMap((raw): Line[] => {
    const kept = withoutComment(raw).trimEnd();
    return kept.trim() === ''
      ? []
      : [{ indent: kept.length - kept.trimStart().length, text: kept.trimStart() }];
  });
  return new BlockReader(lines).read();
}

function withoutComment(line: string): string {
  let quote = '';
  for (const [at, character] of [...line].entries()) {
    if (quote !== '') quote = character === quote ? '' : quote;
    else if (character === '"' || character === "'") quote = character;
    else if (character === '#' && (at === 0 || line[at - 1] === ' ')) return line.slice(0, at);
  }
  return line;
}

class BlockReader {
  readonly #lines: readonly Line[];
  readonly #anchors = new Map<string, Yaml>();
  #at = 0;

  constructor(lines: readonly Line[]) {
    this.#lines = lines;
  }

  read(): Yaml {
    const value = this.#block(0);
    if (this.#at < this.#lines.length)
      throw new Error(`unexpected: ${this.#lines[this.#at]?.text}`);
    return value;
  }

  #block(indent: number): Yaml {
    return this.#lines[this.#at]?.text.startsWith('- ') ? this.#list(indent) : this.#map(indent);
  }

  #list(indent: number): Yaml[] {
    const items: Yaml[] = [];
    for (let line = this.#next(indent); line?.text.startsWith('- '); line = this.#next(indent)) {
      this.#at++;
      items.push(this.#value(line.text.slice(2), indent));
    }
    return items;
  }

  #map(indent: number): { [key: string]: Yaml } {
    const merged: { [key: string]: Yaml } = {};
    const own: { [key: string]: Yaml } = {};
    for (let line = this.#next(indent); line !== undefined; line = this.#next(indent)) {
      const [, key, rest = ''] = /^([\w.<-]+):(?: (.*))?$/.exec(line.text) ?? [];
      if (key === undefined) throw new Error(`no key and value: ${line.text}`);
      this.#at++;
      const value = this.#value(rest, indent);
      if (key === '<<') Object.assign(merged, value);
      else own[key] = value;
    }
    return { ...merged, ...own };
  }

  #next(indent: number): Line | undefined {
    const line = this.#lines[this.#at];
    return line?.indent === indent ? line : undefined;
  }

  #value(text: string, indent: number): Yaml {
    const [, anchor, rest = ''] = /^(?:&(\w+))? *(.*)$/.exec(text) ?? [];
    const alias = /^\*(\w+)$/.exec(rest)?.[1];
    if (alias !== undefined) {
      const known = this.#anchors.get(alias);
      if (known === undefined) throw new Error(`no anchor ${alias}`);
      return known;
    }
    const deeper = this.#lines[this.#at]?.indent ?? 0;
    let value: Yaml = null;
    if (rest !== '') value = readFlow(rest);
    else if (deeper > indent) value = this.#block(deeper);
    if (anchor !== undefined) this.#anchors.set(anchor, value);
    return value;
  }
}

/** A value on one line. */
function readFlow(text: string): Yaml {
  if (text.startsWith('[')) return parts(text, ']').map((part) => readFlow(part));
  if (text.startsWith('{') || /^[|>!%@`]/.test(text)) {
    if (!text.startsWith('{')) throw new Error(`not read here: ${text}`);
    const pairs = parts(text, '}').map((part) => {
      const [, key = '', value = ''] = /^([\w-]+): (.*)$/.exec(part) ?? [];
      return [key, readFlow(value)] as const;
    });
    return Object.fromEntries(pairs);
  }
  const quoted = /^"([^"\\]*)"$|^'([^']*)'$/.exec(text);
  if (quoted) return quoted[1] ?? quoted[2] ?? '';
  if (/^["']/.test(text)) throw new Error(`not read here: ${text}`);
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d+$/.test(text) ? Number(text) : text;
}

/** What is between the brackets, at its commas. */
function parts(text: string, close: string): string[] {
  if (!text.endsWith(close)) throw new Error(`not closed: ${text}`);
  const inside = text.slice(1, -1).trim();
  return inside === ''
    ? []
    : inside.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).map((part) => part.trim());
}
