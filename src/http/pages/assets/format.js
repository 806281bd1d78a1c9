/** Figures as people read them. */
import { el, NONE } from './dom.js';

const integers = new Intl.NumberFormat('en-US');

export function count(number) {
  return integers.format(number);
}

export function bytes(number) {
  if (number < 1024) return `${number} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let scaled = number / 1024;
  let unit = 0;
  while (scaled >= 1000 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${units[unit]}`;
}

export function speed(factor) {
  if (!Number.isFinite(factor) || factor <= 0) return NONE;
  return `${factor < 10 ? factor.toFixed(1) : integers.format(Math.round(factor))}×`;
}

/** `850 ms`, `12.3 s`, `4 min 05 s`, `3 h 20 min`. */
export function duration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${pad(Math.floor(seconds % 60))} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${pad(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A place in audio: `1:02:03`, `2:03.4`. */
export function clock(seconds) {
  const tenths = Math.round(seconds * 10);
  const minutes = Math.floor(tenths / 600);
  const rest = pad(Math.floor((tenths % 600) / 10));
  if (minutes < 60) return `${minutes}:${rest}.${tenths % 10}`;
  return `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${rest}`;
}

function pad(number) {
  return String(number).padStart(2, '0');
}

/** How long ago, with the exact time for whoever points at it. */
export function ago(time) {
  const date = new Date(time);
  const seconds = Math.max(0, (Date.now() - date.getTime()) / 1_000);
  let text = 'just now';
  if (seconds >= 86_400) text = `${Math.floor(seconds / 86_400)} d ago`;
  else if (seconds >= 3_600) text = `${Math.floor(seconds / 3_600)} h ago`;
  else if (seconds >= 60) text = `${Math.floor(seconds / 60)} min ago`;
  else if (seconds >= 5) text = `${Math.floor(seconds / 5) * 5} s ago`;
  return el('time', { datetime: date.toISOString(), title: date.toLocaleString() }, text);
}

export function moment(time) {
  const date = new Date(time);
  return el(
    'time',
    { datetime: date.toISOString() },
    date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' }),
  );
}

const TONES = {
  waiting: 'idle',
  delayed: 'idle',
  running: 'busy',
  completed: 'good',
  failed: 'bad',
  cancelled: 'warn',
};

export function toneOf(state) {
  return TONES[state] ?? 'idle';
}
