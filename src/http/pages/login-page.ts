import { html, page } from './html.ts';
import { BRAND } from './shell.ts';

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
