// Causes every fault for real and prints what became of the jobs. Usage: npm run chaos [-- --only NAME,NAME] [--seed N]
// Needs redis-server and the test addon (npm run build:native -- --tests). Full disks need the right to mount (root).
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { runChecks } from './chaos-checks.mjs';

const ROOT = path.resolve(import.meta.dirname, '..');

/** Runs the tests of one file that `npm test` leaves out; output of the runner only where something failed. */
export function runWhole(file, env) {
  const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--config', 'vitest.chaos.config.ts', '--reporter=verbose', file];
  return spawnSync(process.execPath, args, {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...env },
  }).status;
}

function readReport(file) {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

const HEADINGS = ['fault', 'times', 'jobs', 'lost', 'doubled', 'recovery'];

function cells({ fault, error, times, jobs, lost, doubled, recoveryMs }) {
  if (error !== undefined) return [fault, '–', '–', '–', '–', `failed: ${error}`];
  const recovery = recoveryMs === null ? '–' : `${(recoveryMs / 1_000).toFixed(1)} s`;
  return [fault, times, jobs, lost, doubled, recovery].map(String);
}

function checkCells({ fault, error }) {
  return [fault, '–', '–', '–', '–', error === undefined ? 'as it should be' : `failed: ${error}`];
}

function printTable(rows) {
  const widths = HEADINGS.map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  for (const row of rows) console.log(row.map((cell, at) => cell.padEnd(widths[at])).join('  '));
}

function main() {
  const { values } = parseArgs({
    options: { only: { type: 'string' }, seed: { type: 'string', default: '1' } },
  });
  const folder = mkdtempSync(path.join(tmpdir(), 'wavepool-chaos-report-'));
  const report = path.join(folder, 'report.jsonl');
  const status = runWhole('test/chaos/whole.chaos.ts', {
    WAVEPOOL_CHAOS_REPORT: report,
    WAVEPOOL_CHAOS_SEED: values.seed,
    ...(values.only === undefined ? {} : { WAVEPOOL_CHAOS_ONLY: values.only }),
  });
  const outcomes = readReport(report);
  const checks = values.only === undefined ? runChecks(ROOT, folder) : [];
  rmSync(folder, { recursive: true });
  console.log();
  printTable([HEADINGS, ...outcomes.map(cells), ...checks.map(checkCells)]);
  const bad = outcomes.filter(({ error, lost, doubled }) => error || lost > 0 || doubled > 0);
  const unproven = checks.filter(({ error }) => error !== undefined);
  const wrong = bad.length + unproven.length;
  console.log(
    `\n${outcomes.length + checks.length} faults, ${wrong} of them with losses or without their proof`,
  );
  process.exitCode = status === 0 && outcomes.length > 0 && wrong === 0 ? 0 : 1;
}

if (process.argv[1] === import.meta.filename) main();
