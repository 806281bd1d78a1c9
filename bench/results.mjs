/** Result files, bench/results/PART.json: all that a table needs, so that one can be made again without measuring. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const FORMAT = 1;
const ROOT = path.resolve(import.meta.dirname, '..');
/** Of full measurements; those that are published. */
export const RESULTS = path.join(import.meta.dirname, 'results');

function commit() {
  const git = (...args) => spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
  const { status, stdout } = git('rev-parse', '--short', 'HEAD');
  if (status !== 0) return null;
  const changed =
    git('status', '--porcelain', '--', 'src', 'native', 'bench', ':!bench/results').stdout !== '';
  return `${stdout.trim()}${changed ? ', changed' : ''}`;
}

export function describeMachine() {
  const memory = Math.round(os.totalmem() / 2 ** 30);
  return {
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cores: os.availableParallelism(),
    memoryGib: memory,
    kernel: os.release(),
    node: process.versions.node,
  };
}

/** @param command as it was typed, to be typed again */
export function writeResult(folder, part, { command, settings, data }) {
  const result = {
    format: FORMAT,
    part,
    measuredAt: new Date().toISOString(),
    commit: commit(),
    command,
    machine: describeMachine(),
    load: os.loadavg()[0],
    settings,
    data,
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, `${part}.json`), `${JSON.stringify(result, undefined, 1)}\n`);
  return result;
}

/** Undefined for a part that was never measured. */
export function readResult(folder, part) {
  const file = path.join(folder, `${part}.json`);
  if (!existsSync(file)) return undefined;
  const result = JSON.parse(readFileSync(file, 'utf8'));
  if (result.format !== FORMAT) throw new Error(`${file} has format ${result.format}`);
  return result;
}
