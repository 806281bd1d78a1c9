/** The overview: workers, models, queues and failures as they are now. */

import { histogram, sparkline } from './charts.js';
import { badge, byId, el, empty, facts, NONE, table, update } from './dom.js';
import { reasonOf } from './failure.js';
import { ago, bytes, count, duration, speed } from './format.js';
import { watchFleet } from './live.js';
import { showLost, showPulse } from './pulse.js';
import { openPage } from './shell.js';

/** Two minutes of samples. */
const MOST_SAMPLES = 60;
const samples = [];
const rates = [];

const STATE_TONES = {
  ready: 'good',
  loading: 'busy',
  reconfiguring: 'busy',
  unloading: 'warn',
  failed: 'bad',
  unserved: 'warn',
};

const sum = (list, of) => list.reduce((total, item) => total + of(item), 0);

/** Audio that each model of each worker has recognized so far, by worker and model. */
function audioByOwner(workers) {
  return new Map(
    workers.flatMap(({ id, runtime }) =>
      runtime.models
        .filter(({ task }) => task !== 'vad')
        .map((model) => [`${id}/${model.id}`, model.batches.audioSeconds]),
    ),
  );
}

/** Audio seconds per second over the last samples; a worker that came or went in between counts for nothing. */
function measureRate(workers) {
  samples.push({ at: performance.now(), audio: audioByOwner(workers) });
  if (samples.length > 6) samples.shift();
  const [first] = samples;
  const last = samples.at(-1);
  const seconds = (last.at - first.at) / 1_000;
  const gained = [...last.audio].reduce(
    (total, [owner, audio]) => total + Math.max(0, audio - (first.audio.get(owner) ?? audio)),
    0,
  );
  const rate = seconds > 0 ? gained / seconds : 0;
  rates.push(rate);
  if (rates.length > MOST_SAMPLES) rates.shift();
  return rate;
}

function stat(id, value, note) {
  byId(id).textContent = value;
  byId(`${id}-note`).textContent = note;
}

function showStats(workers, models) {
  const rate = measureRate(workers);
  const queues = models.map(({ queue }) => queue);
  const hosts = new Set(workers.map(({ host }) => host)).size;
  const slots = sum(models, (model) => model.slots);
  stat('workers', count(workers.length), hosts > 1 ? `on ${count(hosts)} machines` : 'live now');
  stat(
    'slots',
    `${count(sum(models, ({ activeSlots }) => activeSlots))} / ${count(slots)}`,
    slots === 0 ? 'no model is loaded' : 'busy now',
  );
  const delayed = sum(queues, (queue) => queue.delayed);
  stat(
    'waiting',
    count(sum(queues, (queue) => queue.waiting)),
    delayed > 0 ? `and ${count(delayed)} delayed` : 'in all queues',
  );
  stat('running', count(sum(queues, ({ running }) => running)), 'jobs at work');
  stat(
    'completed',
    count(sum(queues, ({ completed }) => completed)),
    `${count(sum(queues, ({ failed }) => failed))} failed or cancelled`,
  );
  stat('rate', speed(rate), 'real time, last 10 s');
  byId('sparkline').replaceChildren(sparkline(rates, MOST_SAMPLES));
}

/** What the workers' runtimes say of one model, added up. */
function loadOf(id, workers) {
  const entries = workers.flatMap(({ runtime }) => runtime.models.filter((one) => one.id === id));
  const sizes = [];
  for (const { batches } of entries) {
    for (const [at, batchCount] of batches.batchSizes.entries())
      sizes[at] = (sizes[at] ?? 0) + batchCount;
  }
  const busySeconds = sum(entries, ({ batches }) => batches.busyMs) / 1_000;
  const audioSeconds = sum(entries, ({ batches }) => batches.audioSeconds);
  return {
    sizes,
    failure: entries.find(({ failure }) => failure !== null)?.failure,
    speed: busySeconds > 0 ? audioSeconds / busySeconds : 0,
    audioSeconds,
    queuedItems: sum(entries, ({ batches }) => batches.queuedItems),
    memory: sum(
      entries,
      ({ weightBytes, sessionBytes }) =>
        (weightBytes ?? 0) + sum(sessionBytes ?? [], (size) => size),
    ),
  };
}

function slotRow({ slots, activeSlots }) {
  const shown = Math.min(slots, 48);
  return el(
    'span',
    { class: 'slots', role: 'img', 'aria-label': `${activeSlots} of ${slots} slots are busy` },
    Array.from({ length: shown }, (_, at) => el('i', { 'data-on': at < activeSlots })),
  );
}

function modelCard(model, workers) {
  const load = loadOf(model.id, workers);
  const { queue } = model;
  return el(
    'article',
    { class: 'card' },
    el(
      'div',
      { class: 'card-head' },
      el('h3', {}, model.id),
      badge(model.state, STATE_TONES[model.state]),
    ),
    el(
      'div',
      { class: 'card-body stack' },
      model.state === 'unserved' &&
        el(
          'p',
          { class: 'small' },
          'No worker serves it; its jobs wait. Start one: ',
          el('code', {}, `wavepool worker --model ${model.id}`),
        ),
      load.failure && el('p', { class: 'problem small' }, load.failure.message),
      model.slots > 0 &&
        el(
          'div',
          { class: 'spread' },
          el('span', { class: 'muted small' }, `${model.activeSlots} of ${model.slots} slots busy`),
          slotRow(model),
        ),
      facts([
        ['Waiting', count(queue.waiting + queue.delayed)],
        ['Running', count(queue.running)],
        ['Completed', count(queue.completed)],
        ['Failed or cancelled', count(queue.failed)],
        ['Segments waiting for a slot', model.slots > 0 ? count(load.queuedItems) : undefined],
        ['Speed of a slot', load.speed > 0 ? `${speed(load.speed)} real time` : undefined],
        [
          'Audio recognized',
          load.audioSeconds > 0 ? duration(load.audioSeconds * 1_000) : undefined,
        ],
        ['Memory', load.memory > 0 ? bytes(load.memory) : undefined],
      ]),
      load.sizes.some((size) => size > 0) && histogram(load.sizes),
    ),
  );
}

/** A model as one worker has it. */
function servedModel({ id, batch }, entries) {
  const entry = entries.find((one) => one.id === id);
  const managers = entry?.waitingManagers ?? 0;
  const facts = [
    `batch ${count(batch)}`,
    entry && `generation ${count(entry.generation)}`,
    managers > 0 && `${count(managers)} managers wait`,
  ];
  return el(
    'div',
    {},
    `${id} `,
    entry && badge(entry.state, STATE_TONES[entry.state]),
    el('span', { class: 'muted small' }, ` ${facts.filter(Boolean).join(' · ')}`),
  );
}

function workerTable(workers) {
  const columns = [
    { label: 'Worker' },
    { label: 'Models' },
    { label: 'Slots busy', class: 'number' },
    { label: 'Jobs held', class: 'number' },
    { label: 'Memory', class: 'number' },
    { label: 'Up', class: 'number' },
  ];
  const rows = workers.map((worker) => {
    const entries = worker.runtime.models.filter(({ id }) =>
      worker.models.some((served) => served.id === id),
    );
    const active = sum(entries, ({ activeSlots }) => activeSlots);
    return [
      el(
        'span',
        { title: `version ${worker.version}, build ${worker.runtime.build}` },
        worker.host,
        el('span', { class: 'muted' }, ` · ${worker.pid}`),
      ),
      worker.models.map((served) => servedModel(served, entries)),
      `${count(active)} / ${count(sum(worker.models, ({ slots }) => slots))}`,
      count(worker.heldJobs),
      bytes(worker.residentBytes),
      duration(Math.max(0, worker.updatedAt - worker.startedAt)),
    ];
  });
  return table('Live workers', columns, rows);
}

function failureTable(failures) {
  const columns = [
    { label: 'Input' },
    { label: 'Reason', class: 'long' },
    { label: 'When', class: 'nowrap' },
  ];
  const rows = failures.map(({ id, input, failure, finishedAt }) => [
    el(
      'a',
      { class: 'name', href: `/dashboard/jobs/${encodeURIComponent(id)}`, 'data-key': id },
      input.name,
    ),
    reasonOf(failure),
    finishedAt === null ? NONE : ago(finishedAt),
  ]);
  return table('Recent failures', columns, rows);
}

function show({ workers, models, failures }) {
  showPulse('live', 'Live');
  showStats(workers, models);
  update(
    byId('model-list'),
    models.map((model) => modelCard(model, workers)),
  );
  update(
    byId('worker-list'),
    workers.length === 0
      ? empty('No worker is running', 'Jobs wait until one is: ', el('code', {}, 'wavepool worker'))
      : workerTable(workers),
  );
  update(
    byId('failure-list'),
    failures.length === 0
      ? empty('Nothing has failed', 'Failed jobs appear here with their reasons.')
      : failureTable(failures),
  );
}

await openPage();
/** A tenant's key shows no workers, but jobs. */
function leaveOrTell(error) {
  if (error.code === 'FORBIDDEN') location.replace('/dashboard/jobs');
  else showLost(error);
}

watchFleet(show, leaveOrTell);
