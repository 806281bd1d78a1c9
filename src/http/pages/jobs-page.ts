import { JobState } from '../../core/http/api.ts';
import { html } from './html.ts';
import { shell } from './shell.ts';

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
