/** The drawings of the report: inline SVG, nothing loaded from anywhere. */
import type { CountEvidence, EvidenceStart, MemorySample } from '../../core/evidence/evidence.ts';
import { html, type Markup } from './markup.ts';

const WIDTH = 760;
const HEIGHT = 200;
const LEFT = 62;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 34;
const MIB = 2 ** 20;
const GRID_LINES = 4;

interface Scale {
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
  readonly mostX: number;
  readonly mostY: number;
}

/** A round number at or above `value`: 1, 2, 2.5 or 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= value) ?? 10;
  return step * power;
}

function scaleOf(mostX: number, mostY: number): Scale {
  return {
    x: (value) => LEFT + (value / mostX) * (WIDTH - LEFT - RIGHT),
    y: (value) => HEIGHT - BOTTOM - (value / mostY) * (HEIGHT - TOP - BOTTOM),
    mostX,
    mostY,
  };
}

function grid({ y, mostY }: Scale, unit: string): Markup[] {
  return Array.from({ length: GRID_LINES + 1 }, (_, at) => {
    const value = (mostY * at) / GRID_LINES;
    const label = `${Number.isInteger(value) ? value : value.toFixed(1)}${at === GRID_LINES ? ` ${unit}` : ''}`;
    return html`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}"/>
<text class="tick" x="${LEFT - 6}" y="${y(value) + 4}" text-anchor="end">${label}</text>`;
  });
}

function chart(label: string, content: readonly Markup[]): Markup {
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${content}</svg>`;
}

/** Resident memory of the three starts of a count over time, with what was going on below. */
export function memoryChart(count: CountEvidence): Markup {
  const starts = count.starts.filter(({ memory }) => memory.length > 0);
  if (starts.length === 0) return html`<p class="quiet">No start came to its end.</p>`;
  const all = starts.flatMap(({ memory }) => memory);
  const seconds = Math.max(...all.map(({ atMs }) => atMs / 1000), 0.1);
  const scale = scaleOf(seconds, roundUp(Math.max(...all.map((one) => one.residentBytes / MIB))));
  const lines = starts.map((start, at) => memoryLine(start, at, scale));
  const ticks = Array.from({ length: 6 }, (_, at) => {
    const value = (seconds * at) / 5;
    return html`<text class="tick" x="${scale.x(value)}" y="${HEIGHT - 4}" text-anchor="middle">${value.toFixed(seconds < 20 ? 1 : 0)} s</text>`;
  });
  const label = `Resident memory over time, ${count.slots} slots`;
  return chart(label, [...grid(scale, 'MiB'), ...phaseBand(starts[0], scale), ...lines, ...ticks]);
}

function memoryLine({ memory }: EvidenceStart, at: number, { x, y }: Scale): Markup {
  const point = ({ atMs, residentBytes }: MemorySample) =>
    `${x(atMs / 1000).toFixed(1)},${y(residentBytes / MIB).toFixed(1)}`;
  const settled = memory.filter(({ wave }) => wave !== undefined);
  return html`<polyline class="line start${at + 1}" points="${memory.map(point).join(' ')}"/>
${settled.map((one) => html`<circle class="dot start${at + 1}" cx="${x(one.atMs / 1000)}" cy="${y(one.residentBytes / MIB)}" r="2.2"/>`)}`;
}

/** The phases of the first start, as a band under the curve. */
function phaseBand(start: EvidenceStart | undefined, { x }: Scale): Markup[] {
  const spans: { phase: string; fromMs: number; toMs: number }[] = [];
  for (const { phase, atMs } of start?.memory ?? []) {
    const last = spans.at(-1);
    if (last?.phase === phase) last.toMs = atMs;
    else {
      if (last) last.toMs = atMs;
      spans.push({ phase, fromMs: atMs, toMs: atMs });
    }
  }
  const top = HEIGHT - BOTTOM + 4;
  return spans.map(({ phase, fromMs, toMs }) => {
    const from = x(fromMs / 1000);
    const width = x(toMs / 1000) - from;
    const label = width > 7 * phase.length ? phase : '';
    return html`<rect class="phase ${phase}" x="${from}" y="${top}" width="${Math.max(width, 0.5)}" height="13"><title>${phase}</title></rect>
<text class="phase-name" x="${from + width / 2}" y="${top + 10}" text-anchor="middle">${label}</text>`;
  });
}

/** Audio seconds per second of the warm waves, a bar for each count. */
export function throughputChart(counts: readonly CountEvidence[]): Markup {
  const speeds = counts.flatMap(({ slots, throughput }) =>
    throughput === null ? [] : [{ slots, speed: throughput.audioSeconds / throughput.wallSeconds }],
  );
  if (speeds.length === 0) return html`<p class="quiet">Nothing was measured.</p>`;
  const scale = scaleOf(speeds.length, roundUp(Math.max(...speeds.map(({ speed }) => speed))));
  const width = Math.min(70, (scale.x(1) - scale.x(0)) * 0.5);
  const bars = speeds.map(({ slots, speed }, at) => {
    const middle = scale.x(at + 0.5);
    const top = scale.y(speed);
    return html`<rect class="bar" x="${middle - width / 2}" y="${top}" width="${width}" height="${HEIGHT - BOTTOM - top}" rx="3"/>
<text class="value" x="${middle}" y="${top - 4 < TOP + 8 ? top + 14 : top - 4}" text-anchor="middle">${speed.toFixed(1)} ×</text>
<text class="tick" x="${middle}" y="${HEIGHT - 14}" text-anchor="middle">${slots} ${slots === 1 ? 'slot' : 'slots'}</text>`;
  });
  return chart('Throughput by slot count', [...grid(scale, '×'), ...bars]);
}
