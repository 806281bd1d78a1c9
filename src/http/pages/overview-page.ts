import { type Html, html } from './html.ts';
import { shell } from './shell.ts';

const STATS = [
  ['workers', 'Workers'],
  ['slots', 'Slots'],
  ['waiting', 'Waiting'],
  ['running', 'Running'],
  ['completed', 'Completed'],
] as const;

export function overviewPage(): string {
  return shell({
    title: 'Overview',
    current: '/dashboard',
    script: 'overview.js',
    main: html`<div class="head">
<h1>Overview</h1>
<div class="row"><span class="pulse" id="pulse" role="status">Loading</span>
<a class="button primary" href="/dashboard/upload">Transcribe a recording</a></div>
</div>
<dl class="stats">
${STATS.map(([id, name]) => stat(id, name))}
<div class="stat"><dt>Throughput</dt><dd id="rate">–</dd><dd class="note" id="rate-note">&nbsp;</dd><dd class="note" id="sparkline"></dd></div>
</dl>
<section class="stack" aria-labelledby="models-title"><h2 id="models-title">Models and queues</h2>
<div class="columns models" id="model-list"></div></section>
${section('worker-list', 'Workers')}
${section('failure-list', 'Recent failures', html`<a href="/dashboard/jobs?state=failed">All failed jobs</a>`)}`,
  });
}

function stat(id: string, name: string): Html {
  return html`<div class="stat"><dt>${name}</dt><dd id="${id}">–</dd><dd class="note" id="${id}-note">&nbsp;</dd></div>`;
}

function section(id: string, title: string, more: Html = html``): Html {
  return html`<section class="card" aria-labelledby="${id}-title">
<div class="card-head"><h2 id="${id}-title">${title}</h2>${more}</div>
<div id="${id}" class="waiting-space"></div>
</section>`;
}
