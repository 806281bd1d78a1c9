/**
 * Tables and charts from results alone: `node bench/report.mjs` puts them between their marks in docs/performance.md and into
 * docs/charts.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { barChart } from './charts.mjs';
import { overview } from './overview.mjs';
import { PARTS } from './parts.mjs';
import { RESULTS, readResult } from './results.mjs';

const DOCS = path.resolve(import.meta.dirname, '../docs');
const PAGE = path.join(DOCS, 'performance.md');
const CHARTS = path.join(DOCS, 'charts');

function describeRun({ machine, measuredAt, commit, command }) {
  const { cpu, cores, memoryGib, node } = machine;
  const where = `${cores} × ${cpu}, ${memoryGib} GiB, Node ${node}`;
  return `${where}; ${measuredAt.slice(0, 10)}, commit ${commit ?? 'unknown'}; \`${command}\``;
}

function linesOf(part, result) {
  return [...part.document(result).lines, '', describeRun(result)];
}

/** Replaces what is between the marks of a part. */
function replaceBlock(page, name, lines) {
  const begin = `<!-- measured: ${name} -->`;
  const end = `<!-- end of measured: ${name} -->`;
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from < 0 || to < from) throw new Error(`docs/performance.md has no place for ${name}`);
  return `${page.slice(0, from)}${begin}\n${lines.join('\n')}\n${page.slice(to)}`;
}

function writeChart(name, chart) {
  mkdirSync(CHARTS, { recursive: true });
  writeFileSync(path.join(CHARTS, `${name}.svg`), barChart(chart));
}

/** On standard output, as they would be published. */
export function printParts(results, names) {
  for (const part of PARTS) {
    if (!names.includes(part.name)) continue;
    const lines = linesOf(part, readResult(results, part.name));
    console.log(`\n## ${part.title}\n\n${lines.join('\n')}`);
  }
}

/** Every part that was ever measured; the others keep what the page says. */
export function publish() {
  let page = readFileSync(PAGE, 'utf8');
  const results = new Map();
  for (const part of PARTS) {
    const result = readResult(RESULTS, part.name);
    if (result === undefined) continue;
    results.set(part.name, result);
    const { charts } = part.document(result);
    const images = Object.entries(charts).flatMap(([name, chart]) => {
      writeChart(name, chart);
      return ['', `![${chart.title.replaceAll('`', '')}](charts/${name}.svg)`];
    });
    page = replaceBlock(page, part.name, [...linesOf(part, result), ...images]);
  }
  const chart = overview(results);
  if (chart !== undefined) writeChart('overview', chart);
  writeFileSync(PAGE, page);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) publish();
