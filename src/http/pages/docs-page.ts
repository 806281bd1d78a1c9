/** The OpenAPI document as a page for people. */
import type { JsonObject } from '../../core/openapi.ts';
import { type Html, html } from './html.ts';
import { shell } from './shell.ts';

export function docsPage(document: JsonObject): string {
  const { info, paths, components } = document;
  const operations = Object.entries(object(paths)).flatMap(([path, methods]) =>
    Object.entries(object(methods)).map(([method, operation]) =>
      describeOperation(method, path, object(operation)),
    ),
  );
  const { description, version } = object(info);
  const { schemas: schemasOf } = object(components);
  const schemas = Object.entries(object(schemasOf)).map(describeSchema);
  return shell({
    title: 'API',
    current: '/docs',
    main: html`<div class="head"><div><h1>API</h1>
<p>${prose(description)} Version ${text(version)}; <a href="/openapi.json">OpenAPI document</a>.</p></div></div>
<div class="reference stack">
<h2>Operations</h2>
${operations}
<h2>Schemas</h2>
${schemas}
</div>`,
  });
}

function describeOperation(method: string, path: string, operation: JsonObject): Html {
  const { operationId, summary, description, requestBody } = operation;
  const { parameters: taken, responses: given } = operation;
  const parameters = list(taken).map((parameter) => {
    const { name, in: place, required, schema } = object(parameter);
    const { description: meaning } = object(schema);
    const note = required === true ? 'required' : 'optional';
    return html`<tr><td><code>${text(name)}</code></td><td>${text(place)}</td><td>${note}</td><td>${prose(meaning)}</td></tr>`;
  });
  const responses = Object.entries(object(given)).map(([status, response]) => {
    const { description: meaning } = object(response);
    return html`<tr><td>${status}</td><td>${prose(meaning)}</td><td>${linksOf(object(response))}</td></tr>`;
  });
  return html`<section id="${text(operationId)}">
<h3><code>${method.toUpperCase()} ${path}</code></h3>
<p><strong>${prose(summary)}</strong>. ${prose(description)} ${scopeOf(operation)}</p>
${requestBody === undefined ? html`` : html`<p>Body: ${linksOf(object(requestBody))}</p>`}
${parameters.length === 0 ? html`` : html`<table><thead><tr><th>Parameter</th><th>In</th><th></th><th>Meaning</th></tr></thead><tbody>${parameters}</tbody></table>`}
<table><thead><tr><th>Status</th><th>Meaning</th><th>Body</th></tr></thead><tbody>${responses}</tbody></table>
</section>`;
}

function scopeOf({ security }: JsonObject): string {
  const { bearer } = object(list(security)[0]);
  const scopes = list(bearer);
  return scopes.length === 0 ? 'Open to everybody.' : `Needs the scope ${scopes.join(', ')}.`;
}

/** The media types of a body, with links to the schemas. */
function linksOf({ content }: JsonObject): Html {
  const kinds = Object.entries(object(content)).map(([type, media]) => {
    const { schema } = object(media);
    const { $ref } = object(schema);
    const id = typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? '') : undefined;
    const link = id === undefined ? html`` : html` <a href="#schema-${id}">${id}</a>`;
    return html`<code>${type}</code>${link} `;
  });
  return html`${kinds}`;
}

function describeSchema([id, schema]: [string, unknown]): Html {
  const shown = JSON.stringify(schema, undefined, 2);
  return html`<details id="schema-${id}"><summary>${id}</summary><pre>${shown}</pre></details>`;
}

function object(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Descriptions are Markdown. The only markup in them is code. */
function prose(value: unknown): Html {
  const parts = text(value).split('`');
  return html`${parts.map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : html`${part}`))}`;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
