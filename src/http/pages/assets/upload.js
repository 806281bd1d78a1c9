/** Sends a recording, and shows its transcript arriving. */
import { call, upload } from './api.js';
import { badge, byId, el, update } from './dom.js';
import { failureNotice } from './failure.js';
import { bytes, duration, speed, toneOf } from './format.js';
import { hasEnded, watchJob } from './live.js';
import { Player } from './player.js';
import { openPage } from './shell.js';
import { downloads } from './transcript.js';

const player = new Player({
  audio: byId('audio'),
  canvas: byId('wave'),
  note: byId('wave-note'),
  list: byId('segments'),
});
const form = byId('form');
const fileInput = byId('file');
const drop = byId('drop');

/** What is under way: `{ file, sending, jobId, watch }`. */
let current;

function say(text) {
  byId('status').textContent = text;
}

function showStep(step) {
  const steps = [...byId('steps').children];
  const at = steps.findIndex(({ dataset }) => dataset.step === step);
  for (const [index, item] of steps.entries()) {
    item.toggleAttribute('data-done', index < at || step === 'done');
    if (index === at && step !== 'done') item.setAttribute('aria-current', 'step');
    else item.removeAttribute('aria-current');
  }
}

function showProgress(part) {
  const bar = byId('progress');
  if (part === undefined) bar.removeAttribute('value');
  else bar.value = part;
}

function showProblem(message) {
  byId('problem').textContent = message;
}

function choose(file) {
  if (file === undefined) return;
  byId('chosen').textContent = `${file.name} · ${bytes(file.size)}`;
  byId('drop-title').textContent = 'Ready to transcribe';
  showProblem('');
}

async function listModels() {
  const { data } = await call('/v1/models');
  const served = data.filter(({ workers }) => workers > 0);
  const models = served.length > 0 ? served : data;
  byId('model').replaceChildren(
    ...models.map(({ id, workers }) =>
      el('option', { value: id }, workers > 0 ? id : `${id} (no worker yet)`),
    ),
  );
  const { defaultModel } = byId('model').dataset;
  if (models.some(({ id }) => id === defaultModel)) byId('model').value = defaultModel;
}

function begin(file) {
  current?.watch?.stop();
  current?.sending.abort();
  current = { file, sending: new AbortController() };
  player.clear();
  update(byId('outcome'));
  update(byId('downloads'));
  byId('form').hidden = true;
  byId('work').hidden = false;
  byId('file-name').textContent = file.name;
  byId('cancel').hidden = false;
  byId('cancel').disabled = false;
  byId('again').hidden = true;
  byId('transcript-empty').hidden = false;
  byId('transcript-empty').textContent = 'Segments appear here as they are recognized.';
  byId('work').focus();
  void player.open(file);
}

async function submit(event) {
  event.preventDefault();
  const [file] = fileInput.files;
  if (file === undefined) {
    showProblem('Choose a recording first.');
    fileInput.focus();
    return;
  }
  begin(file);
  const work = current;
  try {
    showStep('upload');
    const { id: uploadId } = await upload(file, {
      signal: work.sending.signal,
      onProgress: (sent, total) => {
        showProgress(total > 0 ? sent / total : 0);
        say(`Sent ${bytes(sent)} of ${bytes(total)}`);
      },
    });
    const job = await call('/v1/jobs', {
      method: 'POST',
      signal: work.sending.signal,
      body: {
        input: { uploadId, name: file.name.slice(0, 255) },
        model: byId('model').value,
        partials: true,
        options: chosenOptions(),
      },
    });
    work.jobId = job.id;
    follow(work, job);
  } catch (error) {
    if (work !== current) return;
    if (work.sending.signal.aborted) return reset();
    finish();
    showStep('none');
    say('Not transcribed.');
    update(
      byId('outcome'),
      failureNotice({ code: error.code ?? 'INTERNAL', message: error.message }),
    );
  }
}

/** Only what was chosen: the rest is the server's to decide. */
function chosenOptions() {
  const language = byId('language').value.trim();
  return {
    ...(language === '' ? {} : { language }),
    ...(byId('words').checked ? { words: true } : {}),
    ...(byId('split').checked ? { channels: 'split' } : {}),
  };
}

function follow(work, job) {
  showJob(job);
  work.watch = watchJob(job.id, {
    onJob: (latest) => work === current && showJob(latest),
    onSegment: (segment) => {
      if (work !== current) return;
      byId('transcript-empty').hidden = true;
      player.put(segment.index, segment);
    },
    onFail: (error) => say(`Not current: ${error.message}`),
  });
}

function showJob(job) {
  const { state, progress } = job;
  update(byId('state'), badge(state, toneOf(state)));
  const link = byId('job-link');
  link.href = `/dashboard/jobs/${encodeURIComponent(job.id)}`;
  link.hidden = false;
  if (hasEnded(job)) return void showEnd(job);
  if (state !== 'running') {
    showStep('wait');
    showProgress(undefined);
    say('Waiting for a worker…');
    return;
  }
  showStep('run');
  const { processedSeconds = 0, totalSeconds = null } = progress ?? {};
  showProgress(totalSeconds > 0 ? Math.min(1, processedSeconds / totalSeconds) : undefined);
  say(
    totalSeconds > 0
      ? `${duration(processedSeconds * 1_000)} of ${duration(totalSeconds * 1_000)} transcribed`
      : 'Decoding…',
  );
}

function finish() {
  byId('cancel').hidden = true;
  byId('again').hidden = false;
}

async function showEnd(job) {
  finish();
  showProgress(1);
  if (job.state !== 'completed') {
    showStep('none');
    say(job.state === 'cancelled' ? 'Cancelled.' : 'Failed.');
    byId('transcript-empty').hidden = true;
    update(byId('outcome'), failureNotice(job.failure));
    return;
  }
  showStep('done');
  const { durationSeconds, timings } = job.outcome;
  const factor = timings.totalMs > 0 ? (durationSeconds * 1_000) / timings.totalMs : 0;
  say(
    `${duration(durationSeconds * 1_000)} of audio in ${duration(timings.totalMs)}: ${speed(factor)} real time`,
  );
  try {
    const { segments } = await call(`${job.links.result}?format=json`);
    byId('transcript-empty').hidden = segments.length > 0;
    byId('transcript-empty').textContent = 'No speech was found in the recording.';
    player.show(segments);
    update(byId('downloads'), downloads(job));
  } catch (error) {
    update(
      byId('outcome'),
      failureNotice({ code: error.code ?? 'INTERNAL', message: error.message }),
    );
  }
}

async function cancel() {
  byId('cancel').disabled = true;
  const { jobId, sending } = current;
  if (jobId === undefined) {
    sending.abort(new Error('cancelled'));
    return;
  }
  say('Cancelling…');
  await call(`/v1/jobs/${encodeURIComponent(jobId)}`, { method: 'DELETE' }).catch((error) =>
    say(error.message),
  );
}

function reset() {
  current?.watch?.stop();
  current = undefined;
  form.reset();
  byId('chosen').textContent = byId('chosen').dataset.hint;
  byId('drop-title').textContent = byId('drop-title').dataset.hint;
  form.hidden = false;
  byId('work').hidden = true;
  void listModels();
  fileInput.focus();
}

fileInput.addEventListener('change', () => choose(fileInput.files[0]));
for (const name of ['dragenter', 'dragover']) {
  drop.addEventListener(name, (event) => {
    event.preventDefault();
    drop.toggleAttribute('data-over', true);
  });
}
for (const name of ['dragleave', 'drop'])
  drop.addEventListener(name, () => drop.removeAttribute('data-over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length === 0) return;
  fileInput.files = event.dataTransfer.files;
  choose(fileInput.files[0]);
});
form.addEventListener('submit', submit);
byId('cancel').addEventListener('click', cancel);
byId('again').addEventListener('click', reset);

const { scopes } = await openPage();
if (scopes.includes('submit')) await listModels();
else
  showProblem('This login may look, but not submit. Log in with a key that has the scope submit.');
byId('submit').disabled = !scopes.includes('submit');
