/** Markup in which everything that is filled in is escaped, unless it is markup already. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

type Filling = string | number | Markup | readonly Markup[];

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function filled(filling: Filling): string {
  if (filling instanceof Markup) return filling.text;
  if (typeof filling === 'number') return String(Math.round(filling * 100) / 100);
  if (typeof filling !== 'string') return filling.map(({ text }) => text).join('\n');
  return filling.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}

export function html(parts: TemplateStringsArray, ...fillings: readonly Filling[]): Markup {
  return new Markup(String.raw({ raw: parts }, ...fillings.map(filled)));
}

/** Trusted text, such as a style sheet. */
export function raw(text: string): Markup {
  return new Markup(text);
}
