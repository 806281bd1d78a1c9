/** Processes from outside: looked at through /proc, and sent signals. */
import { readdir, readFile } from 'node:fs/promises';

/** The worker processes of a command. */
export async function workersOf(parentPid: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map((pid) => isWorkerOf(pid, parentPid)));
  return pids.filter((_pid, at) => found[at]);
}

async function isWorkerOf(pid: number, parentPid: number): Promise<boolean> {
  try {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    if (!status.includes(`\nPPid:\t${parentPid}\n`)) return false;
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).includes('workers/audio-worker.js');
  } catch {
    return false;
  }
}

/** The most memory that a process has had resident, in bytes; undefined when it has ended. */
export async function peakMemory(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(status) ?? [];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}

/**
 * Sends a signal to one process.
 * @throws {RangeError} for a process that was not found: to the operating system, 0 is everybody in the tests' own group.
 */
export function signalProcess(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined || pid <= 1) throw new RangeError(`${signal} is for no process: ${pid}`);
  process.kill(pid, signal);
}
