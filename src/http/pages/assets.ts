/** The files that the server's own pages load, kept as text so that there is nothing to copy when the project is built. */

/** By the address below `/assets/`. */
export interface Asset {
  readonly type: string;
  readonly text: string;
}

const PAGE_CSS = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.5rem; border: 1px solid; }
table { border-collapse: collapse; margin: 0.5rem 0; }
th, td { text-align: start; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; }
section { border-top: 1px solid; margin-top: 1.5rem; }
form { display: grid; gap: 0.5rem; max-width: 24rem; }
input, button { font: inherit; padding: 0.4rem; }
`;

const LOGIN_JS = `const form = document.getElementById('login');
const problem = document.getElementById('problem');
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  problem.textContent = '';
  const response = await fetch('/v1/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ key: form.elements.key.value }),
  });
  if (response.ok) {
    const next = new URLSearchParams(location.search).get('next') ?? '/docs';
    location.assign(/^\\/[^/\\\\]/.test(next) ? next : '/docs');
    return;
  }
  const { detail } = await response.json().catch(() => ({ detail: response.statusText }));
  problem.textContent = detail;
});
`;

export const ASSETS: Readonly<Record<string, Asset>> = {
  'page.css': { type: 'text/css', text: PAGE_CSS },
  'login.js': { type: 'text/javascript', text: LOGIN_JS },
};
