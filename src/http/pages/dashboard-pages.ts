/** The HTML of the dashboard and of the login. The pages hold no data: their scripts ask the interface for it. */
import { JobState } from '../../core/http/api.ts';
import { type Html, html, page } from './html.ts';
import { BRAND, shell } from './shell.ts';

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

/** @param defaultModel the model that is selected at first */
export function uploadPage(defaultModel: string): string {
  return shell({
    title: 'Transcribe',
    current: '/dashboard/upload',
    script: 'upload.js',
    main: html`<div class="head"><div><h1>Transcribe a recording</h1>
<p>The transcript appears while the recording is being worked on.</p></div></div>
<form id="form" class="stack">
<div class="drop" id="drop">
<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="M12 15.5V4.5M7.5 8.5 12 4l4.5 4.5M4 15.5v2.2A2.3 2.3 0 0 0 6.3 20h11.4a2.3 2.3 0 0 0 2.3-2.3v-2.2"/></svg>
<strong id="drop-title" data-hint="Drop a recording here, or choose one">Drop a recording here, or choose one</strong>
<span id="chosen" class="muted" data-hint="Audio or video, of any common format" aria-live="polite">Audio or video, of any common format</span>
<input id="file" type="file" accept="audio/*,video/*" aria-label="Recording" aria-describedby="chosen">
</div>
<div class="filters">
<div class="field"><label for="model">Model</label><select id="model" data-default-model="${defaultModel}"><option>${defaultModel}</option></select></div>
<div class="field"><label for="language">Language <span class="muted">(optional)</span></label><input id="language" placeholder="en" maxlength="35" autocomplete="off" spellcheck="false" pattern="[a-z]{2,3}(-[A-Za-z0-9]{2,8})*" title="A language tag such as en or pt-BR"></div>
<fieldset class="field"><legend>Transcript</legend><div class="row">
<label class="choice" for="words" title="Each word gets its time, where the model can tell"><input id="words" type="checkbox"> Words with times</label>
<label class="choice" for="split" title="For calls with a person on each channel"><input id="split" type="checkbox"> A speaker per channel</label>
</div></fieldset>
<button class="primary" id="submit" type="submit">Transcribe</button>
</div>
<p class="problem" id="problem" role="alert"></p>
</form>
<section id="work" class="stack" tabindex="-1" aria-labelledby="file-name" hidden>
<div class="card"><div class="card-head">
<div class="row"><h2 id="file-name"></h2><span id="state"></span></div>
<div class="row"><a id="job-link" href="/dashboard/jobs" hidden>Job details</a>
<button type="button" class="danger" id="cancel">Cancel</button>
<button type="button" id="again" hidden>Transcribe another</button></div>
</div>
<div class="card-body stack">
<ol class="steps" id="steps"><li data-step="upload">Upload</li><li data-step="wait">Queue</li><li data-step="run">Transcription</li></ol>
<progress id="progress" max="1" value="0" aria-label="Progress"></progress>
<p id="status" class="muted" role="status">&nbsp;</p>
<div class="wave"><canvas id="wave" aria-hidden="true"></canvas><p id="wave-note"></p></div>
<audio id="audio" controls preload="metadata"></audio>
</div></div>
<div id="outcome"></div>
<div class="card"><div class="card-head"><h2>Transcript</h2><div id="downloads"></div></div>
<p class="empty" id="transcript-empty">Segments appear here as they are recognized.</p>
<ol class="segments" id="segments" aria-label="Segments"></ol></div>
</section>`,
  });
}

export function jobsPage(): string {
  return shell({
    title: 'Jobs',
    current: '/dashboard/jobs',
    script: 'jobs.js',
    main: html`<div class="head"><h1>Jobs</h1><span class="pulse" id="pulse" role="status">Loading</span></div>
<form class="filters" id="filters" aria-label="Filters">
<div class="field"><label for="filter-state">State</label><select id="filter-state"><option value="">Every state</option>${JobState.options.map((state) => html`<option value="${state}">${state}</option>`)}</select></div>
<div class="field"><label for="filter-model">Model</label><select id="filter-model"><option value="">Every model</option></select></div>
</form>
<section class="card" aria-label="Jobs"><div id="list" class="waiting-space"></div></section>
<nav class="row" aria-label="Pages of jobs">
<button type="button" id="previous" disabled>Previous</button>
<span id="page" class="muted small" role="status">Page 1</span>
<button type="button" id="next" disabled>Next</button>
</nav>`,
  });
}

export function jobPage(): string {
  return shell({
    title: 'Job',
    current: '/dashboard/jobs',
    script: 'job.js',
    main: html`<p class="small"><a href="/dashboard/jobs">All jobs</a></p>
<div class="head">
<div class="row"><h1 id="name">Job</h1><span id="state"></span><span id="said" class="muted small" role="status"></span></div>
<div class="row"><span class="pulse" id="pulse" role="status">Loading</span><span class="row" id="actions"></span></div>
</div>
<progress id="progress" max="1" aria-label="Progress" hidden></progress>
<div id="failure"></div>
<div class="split">
<section class="card" aria-labelledby="transcript-title">
<div class="card-head"><div class="row"><h2 id="transcript-title">Transcript</h2><span id="transcript-language" class="muted small"></span></div><div id="downloads"></div></div>
<p class="empty" id="transcript-empty">Loading</p>
<ol class="segments" id="segments" aria-label="Segments"></ol>
</section>
<div class="stack">
<section class="card" aria-labelledby="about-title"><div class="card-head"><h2 id="about-title">About this job</h2></div>
<div class="card-body waiting-space" id="about"></div></section>
<section class="card" id="timings-card" aria-labelledby="timings-title" hidden><div class="card-head"><h2 id="timings-title">Where the time went</h2></div>
<div class="card-body" id="timings"></div></section>
</div>
</div>`,
  });
}

export function loginPage(): string {
  return page({
    title: 'Log in · Wavepool',
    script: 'login.js',
    body: html`<main class="gate"><div class="card">
<span class="brand">${BRAND}Wavepool</span>
<h1>Log in</h1>
<form id="login" method="post">
<div class="field">
<label for="key">API key</label>
<input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false" required autofocus>
</div>
<p id="problem" class="problem" role="alert"></p>
<button class="primary" type="submit">Log in</button>
</form>
<p class="small muted">No key? <code>wavepool keys create</code> makes one on the server.</p>
</div></main>`,
  });
}
