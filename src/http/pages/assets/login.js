/** Changes an API key for a login. */
import { byId } from './dom.js';

const form = byId('login');
const problem = byId('problem');

/** Only addresses of this server: whoever made the link must not choose where the visitor ends. */
function nextPage() {
  const next = new URLSearchParams(location.search).get('next') ?? '';
  return /^\/[^/\\]/.test(next) ? next : '/dashboard';
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  problem.textContent = '';
  try {
    const response = await fetch('/v1/session', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ key: form.elements.key.value.trim() }),
    });
    if (response.ok) {
      location.assign(nextPage());
      return;
    }
    const { detail } = await response.json().catch(() => ({ detail: response.statusText }));
    problem.textContent = `That did not work: ${detail}.`;
  } catch {
    problem.textContent = 'The server cannot be reached.';
  }
  form.elements.key.select();
});
