import { close, mkdirSync, openSync, rmSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { filesBeingWritten } from '../../src/bulk/open-files.ts';
import { type WatchOptions, watchInputs } from '../../src/bulk/watch-inputs.ts';
import { temporaryFolder } from '../support/redis.ts';
import { ManualWatchClock } from './manual-watch-clock.ts';

const STABLE_MS = 10_000;
const RESCAN_MS = 60_000;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeEach(async () => {
  folder = await temporaryFolder();
  mkdirSync(at('in'));
});
afterEach(() => folder[Symbol.asyncDispose]());

function at(...names: string[]): string {
  return path.join(folder.path, ...names);
}

function write(name: string, content = 'audio'): void {
  mkdirSync(path.dirname(at('in', name)), { recursive: true });
  writeFileSync(at('in', name), content);
}

/** A running watch and what it has told, as `kind name → output`. */
function startWatch(options: Partial<WatchOptions> = {}) {
  const clock = new ManualWatchClock();
  const halt = new AbortController();
  const told: string[] = [];
  let change: () => void = () => undefined;
  let watching = false;
  const watchTree: WatchOptions['watchTree'] = (_directory, onChange) => {
    change = onChange;
    watching = true;
    return {
      [Symbol.dispose]: () => {
        watching = false;
      },
    };
  };
  const settings = { directory: at('in'), stableMs: STABLE_MS, rescanMs: RESCAN_MS };
  const read = async () => {
    const all = { ...settings, out: at('out'), clock, watchTree, ...options };
    for await (const entry of watchInputs(all, halt.signal)) {
      const output = entry.kind === 'input' ? ` → ${entry.outputName}` : '';
      told.push(`${entry.kind} ${path.relative(at('in'), entry.path)}${output}`);
    }
  };
  const ended = read();
  return {
    clock,
    told,
    change: () => change(),
    [Symbol.asyncDispose]: async () => {
      halt.abort();
      await ended;
      expect(watching).toBe(false);
    },
  };
}

test('a file is told once, when it has not changed for long enough', async () => {
  write('a.wav');
  await using watch = startWatch();
  await watch.clock.pass(STABLE_MS - 1);
  expect(watch.told).toEqual([]);
  await watch.clock.pass(1);
  expect(watch.told).toEqual(['input a.wav → a']);
  await watch.clock.pass(10 * RESCAN_MS);
  expect(watch.told).toEqual(['input a.wav → a']);
});

test('a file that grows has to stand still again', async () => {
  write('a.wav', 'a');
  await using watch = startWatch();
  for (let size = 2; size < 5; size += 1) {
    await watch.clock.pass(STABLE_MS - 2_000);
    write('a.wav', 'a'.repeat(size));
    watch.change();
    await watch.clock.pass(1_000);
  }
  expect(watch.told).toEqual([]);
  await watch.clock.pass(STABLE_MS);
  expect(watch.told).toEqual(['input a.wav → a']);
});

test('a change brings the next look forward; without one the file is found all the same', async () => {
  await using watch = startWatch();
  await watch.clock.pass(1_000);
  write('told.wav');
  watch.change();
  await watch.clock.pass(STABLE_MS + 1_000);
  expect(watch.told).toEqual(['input told.wav → told']);
  write('untold.wav');
  await watch.clock.pass(RESCAN_MS + STABLE_MS);
  expect(watch.told).toEqual(['input told.wav → told', 'input untold.wav → untold']);
});

test('files of new sub-folders are found, and a file that changed is told again', async () => {
  await using watch = startWatch();
  write('monday/call.mp3');
  watch.change();
  await watch.clock.pass(2 * STABLE_MS);
  expect(watch.told).toEqual(['input monday/call.mp3 → call']);
  write('monday/call.mp3', 'another recording');
  watch.change();
  await watch.clock.pass(2 * STABLE_MS);
  expect(watch.told).toEqual(Array(2).fill('input monday/call.mp3 → call'));
});

test('a file that comes to share the output of another gets a name of its own, and so does the other', async () => {
  write('a.wav');
  await using watch = startWatch();
  await watch.clock.pass(STABLE_MS);
  write('a.mp3');
  watch.change();
  await watch.clock.pass(2 * STABLE_MS);
  expect(watch.told).toEqual(['input a.wav → a', 'input a.mp3 → a.mp3', 'input a.wav → a.wav']);
});

test('what is no audio, or cannot be looked at, is told once', async () => {
  write('notes.txt');
  symlinkSync(at('in', 'nowhere.wav'), at('in', 'lost.wav'));
  await using watch = startWatch();
  await watch.clock.pass(10 * RESCAN_MS);
  expect(watch.told.toSorted()).toEqual(['problem lost.wav', 'skipped notes.txt']);
});

test('a file that vanished before it was whole is not told', async () => {
  write('a.wav');
  await using watch = startWatch();
  await watch.clock.pass(1_000);
  rmSync(at('in', 'a.wav'));
  await watch.clock.pass(10 * RESCAN_MS);
  expect(watch.told).toEqual([]);
});

test.runIf(process.platform === 'linux')(
  'a file that somebody still has open for writing waits, however long it stands still',
  async () => {
    const descriptor = openSync(at('in', 'a.wav'), 'w');
    writeSync(descriptor, 'audio');
    await using watch = startWatch();
    await watch.clock.pass(RESCAN_MS);
    expect(watch.told).toEqual([]);
    expect(await filesBeingWritten([at('in', 'a.wav')])).toEqual(new Set([at('in', 'a.wav')]));
    await promisify(close)(descriptor);
    const reading = openSync(at('in', 'a.wav'), 'r');
    await watch.clock.pass(2 * STABLE_MS);
    expect(watch.told).toEqual(['input a.wav → a']);
    await promisify(close)(reading);
  },
);

test('the system tells of changes in the directory', async () => {
  const clock = new ManualWatchClock();
  const halt = new AbortController();
  const options = { directory: at('in'), stableMs: 0, rescanMs: RESCAN_MS, clock };
  const told = watchInputs(options, halt.signal);
  const next = told.next();
  await clock.pass(1_000);
  // Far from the next walk by the clock: only the change can bring it.
  write('a.wav');
  expect((await next).value).toMatchObject({ kind: 'input', path: at('in', 'a.wav') });
  halt.abort();
  await told.return(undefined);
});
