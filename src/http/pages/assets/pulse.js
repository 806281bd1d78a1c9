/** Whether what a page shows is current. */
import { byId } from './dom.js';

export function showPulse(state, text) {
  const pulse = byId('pulse');
  if (pulse.dataset.state === state && pulse.textContent === text) return;
  pulse.dataset.state = state;
  pulse.textContent = text;
}

export function showLost(error) {
  showPulse('lost', `Not current: ${error.message}`);
}
