import { html, page } from './html.ts';

export function loginPage(): string {
  return page(
    'Wavepool: log in',
    html`<main>
<h1>Wavepool</h1>
<form id="login">
<label for="key">API key</label>
<input id="key" name="key" type="password" autocomplete="current-password" required>
<button type="submit">Log in</button>
<p id="problem" role="alert"></p>
</form>
<p><a href="/docs">API documentation</a></p>
</main>`,
    ['/assets/login.js'],
  );
}
