/** Which process wrote a lock or a record, and whether it still runs. A process id alone may have been reused. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { promisify } from 'node:util';
import { z } from 'zod';

const run = promisify(execFile);

export const ProcessIdentity = z.strictObject({
  pid: z.int().min(1),
  /** When the process started, in the words of its system; only compared for equality. */
  started: z.string(),
  host: z.string(),
  /** Changes when the machine restarts; empty where the system has no such id. */
  boot: z.string(),
});
export type ProcessIdentity = z.infer<typeof ProcessIdentity>;

/** `elsewhere`: another machine or container wrote it, so nothing can be said from here. */
export type ProcessState = 'alive' | 'dead' | 'elsewhere';

async function bootId(): Promise<string> {
  if (process.platform !== 'linux') return '';
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

function errorCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** Undefined when there is no such process, or only its unreaped remains. */
async function startOnLinux(pid: number): Promise<string | undefined> {
  let stat: string;
  try {
    stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ESRCH') return undefined;
    throw error;
  }
  // The second field, the program's name, may hold spaces and parentheses: count from its end.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  return state === 'Z' || state === 'X' ? undefined : fields[19];
}

async function startByPs(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await run('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]);
    const [state = 'Z', ...started] = stdout.trim().split(/\s+/);
    return state.startsWith('Z') ? undefined : started.join(' ');
  } catch (error) {
    // ps exits 1 when nothing matches.
    if (errorCode(error) === 1) return undefined;
    throw error;
  }
}

function startOf(pid: number): Promise<string | undefined> {
  return process.platform === 'linux' ? startOnLinux(pid) : startByPs(pid);
}

/** The running process with this id, if there is one. */
export async function identifyProcess(pid: number): Promise<ProcessIdentity | undefined> {
  const started = await startOf(pid);
  if (started === undefined) return undefined;
  return { pid, started, host: hostname(), boot: await bootId() };
}

/** This process. */
export async function identifySelf(): Promise<ProcessIdentity> {
  const self = await identifyProcess(process.pid);
  if (self === undefined) throw new Error('this process cannot see itself in the process table');
  return self;
}

/** Whether exactly that process still runs. */
export async function processState(identity: ProcessIdentity): Promise<ProcessState> {
  if (identity.host !== hostname()) return 'elsewhere';
  if (identity.boot !== (await bootId())) return 'dead';
  return (await startOf(identity.pid)) === identity.started ? 'alive' : 'dead';
}
