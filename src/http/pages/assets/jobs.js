/** All jobs, filtered and page by page. The address tells the filters, so that a view can be shared. */
import { call } from './api.js';
import { badge, byId, el, empty, NONE, table, update } from './dom.js';
import { ago, duration, toneOf } from './format.js';
import { watchJobs } from './live.js';
import { showLost, showPulse } from './pulse.js';
import { openPage } from './shell.js';

const LIMIT = 25;
/** Cursors of the pages before this one. */
const trail = [];
let cursor;
let nextCursor = null;
let watch;

const filters = { state: byId('filter-state'), model: byId('filter-model') };

function query() {
  const parameters = new URLSearchParams({ limit: String(LIMIT) });
  for (const [name, { value }] of Object.entries(filters))
    if (value !== '') parameters.set(name, value);
  if (cursor !== undefined) parameters.set('cursor', cursor);
  return parameters;
}

function timeOf({ outcome, startedAt, finishedAt }) {
  if (outcome !== null) return duration(outcome.timings.totalMs);
  if (startedAt === null || finishedAt === null) return NONE;
  return duration(Math.max(0, Date.parse(finishedAt) - Date.parse(startedAt)));
}

function rowOf(job) {
  const { id, input, model, state, failure, outcome, createdAt } = job;
  return [
    el(
      'a',
      { class: 'name', href: `/dashboard/jobs/${encodeURIComponent(id)}`, 'data-key': id },
      input.name,
    ),
    el(
      'span',
      { class: 'row' },
      badge(state, toneOf(state)),
      failure !== null && state === 'failed' && el('code', {}, failure.code),
    ),
    model,
    outcome === null ? NONE : duration(outcome.durationSeconds * 1_000),
    timeOf(job),
    ago(createdAt),
  ];
}

const COLUMNS = [
  { label: 'Input' },
  { label: 'State' },
  { label: 'Model', class: 'nowrap' },
  { label: 'Audio', class: 'number' },
  { label: 'Run time', class: 'number' },
  { label: 'Submitted', class: 'number' },
];

function show({ items, nextCursor: next }) {
  nextCursor = next;
  showPulse('live', 'Live');
  const isFiltered = Object.values(filters).some(({ value }) => value !== '');
  update(
    byId('list'),
    items.length === 0
      ? empty(
          isFiltered || trail.length > 0 ? 'No job matches' : 'No jobs yet',
          isFiltered || trail.length > 0
            ? 'Choose other filters, or go back a page.'
            : el('a', { href: '/dashboard/upload' }, 'Transcribe a recording'),
        )
      : table('Jobs', COLUMNS, items.map(rowOf)),
  );
  byId('previous').disabled = trail.length === 0;
  byId('next').disabled = nextCursor === null;
  byId('page').textContent = `Page ${trail.length + 1}`;
}

function load() {
  watch?.stop();
  watch = watchJobs(query(), show, showLost);
}

function filter() {
  trail.length = 0;
  cursor = undefined;
  const shown = query();
  shown.delete('limit');
  const text = shown.toString();
  history.replaceState(null, '', text === '' ? location.pathname : `?${text}`);
  load();
}

async function listModels() {
  const { data } = await call('/v1/models');
  filters.model.append(...data.map(({ id }) => el('option', { value: id }, id)));
}

await openPage();
await listModels();
const asked = new URLSearchParams(location.search);
for (const [name, control] of Object.entries(filters)) {
  const value = asked.get(name) ?? '';
  if ([...control.options].some((option) => option.value === value)) control.value = value;
  control.addEventListener('change', filter);
}
byId('next').addEventListener('click', () => {
  trail.push(cursor);
  cursor = nextCursor;
  load();
});
byId('previous').addEventListener('click', () => {
  cursor = trail.pop();
  load();
});
load();
