/** Measured tables, printed and put between their marks in docs/performance.md. */
import { readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const FILE = path.resolve(import.meta.dirname, '../docs/performance.md');

/** One line: the machine, and the command that was given for this part of the benchmark. */
export function describeRun(part) {
  const cpu = os.cpus()[0]?.model ?? 'unknown';
  const command = ['npm run bench --', part, ...process.argv.slice(2)].join(' ');
  return `Machine: ${os.availableParallelism()} × ${cpu}, Node ${process.versions.node}. Command: \`${command}\``;
}

/** Replaces what the last run of this part wrote; `publish` false only prints. */
export function report(part, lines, publish) {
  const table = [describeRun(part), '', ...lines].join('\n');
  console.log(`\n${table}`);
  if (!publish) return;
  const begin = `<!-- measured: written by npm run bench -- ${part} -->`;
  const end = `<!-- end of measured: ${part} -->`;
  const text = readFileSync(FILE, 'utf8');
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error(`docs/performance.md has no place for ${part}`);
  writeFileSync(FILE, `${text.slice(0, from)}${begin}\n${table}\n${text.slice(to)}`);
}
