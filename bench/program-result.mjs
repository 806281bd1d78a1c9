/** What a program of this folder found that tells it as JSON. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

/** Runs `node bench/PROGRAM … --json` to its end. */
export async function programResult(program, args = []) {
  const file = path.join(import.meta.dirname, program);
  const { stdout } = await promisify(execFile)(process.execPath, [file, ...args, '--json']);
  return JSON.parse(stdout);
}
