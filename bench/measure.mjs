/**
 * What a contestant costs: wall time, CPU time and memory of all its processes, read from /proc (Linux).
 *
 * CPU time is user and system time of every process, the ones that have ended included: their parents account for them when
 * they are waited for. Memory is the largest sum of resident sets at one moment, looked at ten times a second, and the
 * largest high-water mark (VmHWM) of a single process. Pages that processes share count for each of them.
 */
import { readFileSync } from 'node:fs';

const LOOK_INTERVAL_MS = 100;
/** USER_HZ, which Linux fixes for what it tells programs. */
const TICKS_PER_SECOND = 100;

/** Undefined for a process that has gone. */
function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** CPU seconds of a process, and those of the children that it has waited for. */
function cpuOf(pid) {
  const text = read(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The name, in parentheses, may hold anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [user, system, childUser, childSystem] = fields.slice(11, 15).map(Number);
  return {
    own: (user + system) / TICKS_PER_SECOND,
    children: (childUser + childSystem) / TICKS_PER_SECOND,
  };
}

function childrenOf(pid) {
  const text = read(`/proc/${pid}/task/${pid}/children`) ?? '';
  return text.split(' ').filter(Boolean).map(Number);
}

/** A process and all below it. */
function treeOf(pid) {
  return [pid, ...childrenOf(pid).flatMap(treeOf)];
}

function memoryOf(pid) {
  const text = read(`/proc/${pid}/status`) ?? '';
  const bytes = (field) =>
    1024 * Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { resident: bytes('VmRSS'), peak: bytes('VmHWM') };
}

/** Watches the processes that `roots` names, again at every look. */
class MemoryWatch {
  #roots;
  #timer;
  #lastCpu = new Map();
  peakBytes = 0;
  largestProcessBytes = 0;

  constructor(roots) {
    this.#roots = roots;
    this.#timer = setInterval(() => this.#look(), LOOK_INTERVAL_MS);
  }

  #look() {
    let sum = 0;
    for (const pid of this.#roots().flatMap(treeOf)) {
      const { resident, peak } = memoryOf(pid);
      sum += resident;
      this.largestProcessBytes = Math.max(this.largestProcessBytes, peak);
      this.#lastCpu.set(pid, cpuOf(pid)?.own ?? this.#lastCpu.get(pid) ?? 0);
    }
    this.peakBytes = Math.max(this.peakBytes, sum);
  }

  /** CPU seconds that were seen; what a process did after the last look is missing. */
  get seenCpuSeconds() {
    return [...this.#lastCpu.values()].reduce((sum, seconds) => sum + seconds, 0);
  }

  stop() {
    this.#look();
    clearInterval(this.#timer);
  }
}

/** Of processes that live on: everything below them counts. */
function cpuOfTrees(pids) {
  return pids.flatMap(treeOf).reduce((sum, pid) => {
    const { own = 0, children = 0 } = cpuOf(pid) ?? {};
    return sum + own + children;
  }, 0);
}

/**
 * Runs a contestant once.
 * @param contestant `run()` resolves to what it found, with `firstSeconds` from its beginning to its first text where it
 *   can tell; `pids()`, where its processes were started before and live on
 * @returns what it found, with `seconds`, `cpuSeconds`, `peakBytes`, `largestProcessBytes`
 */
export async function measured({ run, pids }) {
  const before = new Set(childrenOf(process.pid));
  const roots = pids ?? (() => childrenOf(process.pid).filter((pid) => !before.has(pid)));
  const waitedFor = cpuOf(process.pid).children;
  const cpuBefore = pids === undefined ? 0 : cpuOfTrees(pids());
  const watch = new MemoryWatch(roots);
  const startedAt = performance.now();
  try {
    const found = await run();
    const seconds = found.seconds ?? (performance.now() - startedAt) / 1000;
    watch.stop();
    const cpuSeconds =
      pids === undefined
        ? Math.max(cpuOf(process.pid).children - waitedFor, watch.seenCpuSeconds)
        : cpuOfTrees(pids()) - cpuBefore;
    const { peakBytes, largestProcessBytes } = watch;
    return { ...found, seconds, cpuSeconds, peakBytes, largestProcessBytes };
  } finally {
    watch.stop();
  }
}
