import { html } from './html.ts';
import { shell } from './shell.ts';

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
