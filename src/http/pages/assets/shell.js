/** What all pages have in common: who is logged in, and the way out. */
import { call, getSession } from './api.js';
import { byId, el } from './dom.js';

/** Shows the account; resolves with the session. */
export async function openPage() {
  const session = await getSession();
  if (session.kind === 'session') {
    const logOut = async () => {
      await call('/v1/session', { method: 'DELETE' });
      location.assign('/login');
    };
    byId('account').replaceChildren(
      el('button', { type: 'button', class: 'plain', onclick: logOut }, 'Log out'),
    );
  }
  return session;
}
