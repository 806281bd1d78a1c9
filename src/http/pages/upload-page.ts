import { html } from './html.ts';
import { shell } from './shell.ts';

/** @param defaultModel is chosen unless the visitor chooses another */
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
