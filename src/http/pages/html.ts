/** HTML of pages that the server writes itself. Every value that is inserted is escaped. */
import { assetUrl, modulesOf } from './assets.ts';

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text that is HTML already. `html` makes it. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Insertion = string | number | Html | readonly Html[];

function insert(value: Insertion): string {
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(({ text }) => text).join('');
  return String(value).replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');
}

/** A template tag: inserted values are escaped unless they are `Html`. */
export function html(parts: TemplateStringsArray, ...values: Insertion[]): Html {
  return new Html(parts.reduce((text, part, at) => text + insert(values[at - 1] ?? '') + part));
}

export interface PageOptions {
  readonly title: string;
  readonly body: Html;
  /** The name of a module of the assets. */
  readonly script?: string;
}

/** A whole document. Its styles and scripts are files, because the content policy allows no others. */
export function page({ title, body, script }: PageOptions): string {
  const modules = script === undefined ? [] : modulesOf(script);
  const document = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="${assetUrl('icon.svg')}" type="image/svg+xml">
<link rel="stylesheet" href="${assetUrl('page.css')}">
${modules.map((name, at) =>
  at === 0
    ? html`<script type="module" src="${assetUrl(name)}"></script>`
    : html`<link rel="modulepreload" href="${assetUrl(name)}">`,
)}
</head>
<body>
${body}
</body>
</html>
`;
  return document.text;
}
