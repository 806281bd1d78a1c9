/** One job: its state, where its time went, why it failed, its transcript. */
import { call } from './api.js';
import { badge, byId, el, facts, NONE, update } from './dom.js';
import { failureNotice } from './failure.js';
import { clock, count, duration, moment, speed, toneOf } from './format.js';
import { hasEnded, watchJob } from './live.js';
import { Player } from './player.js';
import { showLost, showPulse } from './pulse.js';
import { openPage } from './shell.js';
import { downloads, languageName } from './transcript.js';

const id = decodeURIComponent(location.pathname.split('/').at(-1));
const address = `/v1/jobs/${encodeURIComponent(id)}`;
const player = new Player({ list: byId('segments') });
let canSubmit = false;
let watch;

function showActions(job) {
  const act = (label, kind, run) =>
    el('button', { type: 'button', class: kind, onclick: run, 'data-key': label }, label);
  const actions = [];
  if (!hasEnded(job)) actions.push(act('Cancel job', 'danger', cancel));
  if (job.state === 'failed' || job.state === 'cancelled')
    actions.push(act('Retry job', 'primary', retry));
  update(byId('actions'), canSubmit ? actions : []);
}

async function cancel() {
  await change('DELETE', address, 'The worker has been told to stop.');
}

async function retry() {
  await change('POST', `${address}/retry`, 'It waits again.');
}

async function change(method, path, done) {
  for (const button of byId('actions').children) button.disabled = true;
  try {
    await call(path, { method });
    byId('said').textContent = done;
  } catch (error) {
    byId('said').textContent = error.message;
  }
  follow();
}

function progressOf({ state, progress }) {
  if (state === 'waiting' || state === 'delayed') return 'in the queue';
  if (progress === null) return NONE;
  const { phase, processedSeconds, totalSeconds } = progress;
  const done = duration(processedSeconds * 1_000);
  return totalSeconds === null ? phase : `${phase}, ${done} of ${duration(totalSeconds * 1_000)}`;
}

function showFacts(job) {
  const { input, outcome } = job;
  update(
    byId('about'),
    facts([
      ['Job', el('span', { class: 'mono' }, job.id)],
      ['Model', job.model],
      ['Source', { path: 'file on the server', upload: 'upload', url: 'address' }[input.kind]],
      ['Path', input.path && el('span', { class: 'mono' }, input.path)],
      ['Address', input.url && el('span', { class: 'mono' }, input.url)],
      ['Tenant', job.tenant === 'default' ? undefined : job.tenant],
      ['Submitted', moment(job.createdAt)],
      ['Started', job.startedAt ? moment(job.startedAt) : undefined],
      ['Ended', job.finishedAt ? moment(job.finishedAt) : undefined],
      ['Deadline', job.deadlineAt ? moment(job.deadlineAt) : undefined],
      ['Attempts', count(job.attempts)],
      ['Progress', hasEnded(job) ? undefined : progressOf(job)],
    ]),
  );
  byId('timings-card').hidden = outcome === null;
  if (outcome === null) return;
  const { timings, durationSeconds, speechSeconds } = outcome;
  const factor = timings.totalMs > 0 ? (durationSeconds * 1_000) / timings.totalMs : 0;
  update(
    byId('timings'),
    facts([
      ['Audio', duration(durationSeconds * 1_000)],
      ['Speech', duration(speechSeconds * 1_000)],
      ['In the queue', duration(timings.queuedMs)],
      ['Decoding', duration(timings.decodeMs)],
      ['Speech detection', duration(timings.vadMs)],
      ['Recognition', duration(timings.asrMs)],
      ['Run in all', duration(timings.totalMs)],
      ['Speed', `${speed(factor)} real time`],
    ]),
  );
}

let transcriptOf;

async function showTranscript(job) {
  const hint = byId('transcript-empty');
  if (job.state !== 'completed') {
    update(byId('downloads'));
    if (transcriptOf === job.state) return;
    transcriptOf = job.state;
    hint.hidden = false;
    // What an earlier run left says nothing about this one.
    if (job.state !== 'running') player.clear();
    hint.textContent = hasEnded(job)
      ? 'There is no transcript.'
      : 'The transcript appears here as it is recognized.';
    return;
  }
  const run = `${job.id} ${job.finishedAt}`;
  if (transcriptOf === run) return;
  transcriptOf = run;
  try {
    const { segments, language } = await call(`${job.links.result}?format=json`);
    byId('transcript-language').textContent = language ? languageName(language) : '';
    hint.hidden = segments.length > 0;
    hint.textContent = 'No speech was found in the recording.';
    // Where only speech was looked for, its end is what there is to say of it.
    player.show(segments.map((each) => ({ text: `speech until ${clock(each.end)}`, ...each })));
    update(byId('downloads'), downloads(job));
  } catch (error) {
    hint.textContent = error.message;
  }
}

function show(job) {
  byId('pulse').hidden = hasEnded(job);
  showPulse('live', 'Live');
  document.title = `${job.input.name} · Wavepool`;
  byId('name').textContent = job.input.name;
  update(byId('state'), badge(job.state, toneOf(job.state)));
  showActions(job);
  showFacts(job);
  const bar = byId('progress');
  bar.hidden = hasEnded(job);
  const { processedSeconds = 0, totalSeconds = null } = job.progress ?? {};
  if (totalSeconds > 0) bar.value = Math.min(1, processedSeconds / totalSeconds);
  else bar.removeAttribute('value');
  update(byId('failure'), job.failure === null ? [] : failureNotice(job.failure));
  void showTranscript(job);
}

function fail(error) {
  if (error.status === 404) {
    byId('name').textContent = 'No such job';
    byId('transcript-empty').textContent =
      'It never was, or it was forgotten when its time was over.';
    byId('pulse').hidden = true;
    return;
  }
  showLost(error);
}

function follow() {
  watch?.stop();
  watch = watchJob(id, {
    onJob: show,
    onFail: fail,
    onSegment: (segment) => {
      byId('transcript-empty').hidden = true;
      player.put(segment.index, segment);
    },
  });
}

const { scopes } = await openPage();
canSubmit = scopes.includes('submit');
follow();
