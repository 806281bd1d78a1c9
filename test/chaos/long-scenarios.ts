/** Long recordings: what a crash near their end costs, and what they cost short ones beside them. */
import { once } from 'node:events';
import { watch } from 'node:fs/promises';
import { LocalResultStore } from '../../src/storage/local-result-store.ts';
import { signalProcess } from '../support/process-table.ts';
import { ensure, type Scenario, type ScenarioContext } from './scenario.ts';
import { FaultBench } from './support/fault-bench.ts';
import { recognizedBy } from './support/fault-plan.ts';
import { writeSpacedRecording } from './support/spaced-recording.ts';

const KILLED_AT = 0.95;
/** What is in memory for the next line of the journal, and in the batches of the two attempts. */
const MOST_IN_FLIGHT = 12;
const PACE_MS = 60;

/** What one undisturbed job says of the recording, added to the account. */
async function undisturbed(bench: FaultBench, path: string): Promise<string> {
  await bench.queue.add({ id: 'undisturbed', input: { kind: 'path', path } });
  const { resultKey } = await bench.queue.waitFor('undisturbed');
  const store = await LocalResultStore.open(bench.settings.resultsDir);
  const result = await store.read(resultKey);
  const text = result.task === 'transcribe' ? result.text : '';
  bench.ledger.expect('undisturbed', { text });
  return text;
}

function recognized({ folder }: FaultBench): number {
  return [...recognizedBy(folder).values()].reduce((sum, count) => sum + count, 0);
}

/** Resolves when so many segments have gone to native code, in all. */
async function untilRecognized(bench: FaultBench, count: number): Promise<void> {
  const ended = new AbortController();
  const changes = watch(bench.folder, { signal: ended.signal });
  if (recognized(bench) < count)
    for await (const _ of changes) if (recognized(bench) >= count) break;
  ended.abort();
}

/** The jobs of the context are the segments of one job here, ten seconds each. */
async function killLate(context: ScenarioContext) {
  const { jobs: stretches } = context;
  await using bench = await FaultBench.open(context, { paceMs: PACE_MS, notes: true });
  const path = writeSpacedRecording(bench.folder, stretches, context.seed);
  const text = await undisturbed(bench, path);
  const whole = recognized(bench);
  ensure(whole === stretches, `${whole} segments, and not ${stretches}`);
  let recoveryMs = 0;
  for (let time = 0; time < context.times; time += 1) {
    const id = `killed-late-${time}`;
    bench.ledger.expect(id, { text });
    const before = recognized(bench);
    await bench.queue.add({ id, input: { kind: 'path', path } });
    await untilRecognized(bench, before + Math.floor(KILLED_AT * stretches));
    const [victim] = bench.supervisor.pids;
    const died = once(bench.supervisor, 'crash');
    const killedAt = performance.now();
    signalProcess(victim, 'SIGKILL');
    await died;
    const inFirst = recognized(bench) - before;
    await bench.queue.waitFor(id);
    recoveryMs = Math.max(recoveryMs, Math.round(performance.now() - killedAt));
    const again = recognized(bench) - before - stretches;
    process.stderr.write(
      `chaos: killed after ${inFirst} of ${stretches} segments, ${again} of them recognized again\n`,
    );
    ensure(again <= MOST_IN_FLIGHT, `${again} segments were recognized again`);
    const store = await LocalResultStore.open(bench.settings.resultsDir);
    ensure(!(await store.journals.holds(id)), 'the journal outlived its job');
  }
  const outcome = await bench.outcome(recoveryMs, context.times);
  return outcome;
}

export const killedLate: Scenario = {
  name: 'killed-late',
  fault: `kill -9 of a worker at ${100 * KILLED_AT} % of a long recording`,
  run: killLate,
};

const LONG_FILES = 16;
const LONG_STRETCHES = 24;
/** A long one takes three times as long at the least: its stretches go to native code in six batches, each of which takes the pace. */
const LONG_JOB_MS = 2 * PACE_MS;

/** Sixteen long recordings first, then short ones: none of these waits for the long ones to end. */
async function mixLengths(context: ScenarioContext) {
  await using bench = await FaultBench.open(context, {
    paceMs: PACE_MS,
    settings: { longJobMs: LONG_JOB_MS },
  });
  const ends: string[] = [];
  bench.queue.on('completed', ({ id }) => ends.push(id));
  const path = writeSpacedRecording(bench.folder, LONG_STRETCHES, context.seed);
  const text = await undisturbed(bench, path);
  const long = Array.from({ length: LONG_FILES }, (_, at) => `long-${at}`);
  for (const id of long) bench.ledger.expect(id, { text });
  await bench.queue.addMany(long.map((id) => ({ id, input: { kind: 'path', path } })));
  const shortOnes = new Set(await bench.add(context.jobs));
  await bench.allEnded();
  const order = ends.filter((id) => id !== 'undisturbed');
  const longOrder = order.filter((id) => !shortOnes.has(id));
  const firstHalf = new Set(long.slice(0, LONG_FILES / 2));
  const early = longOrder.slice(0, LONG_FILES / 2).filter((id) => firstHalf.has(id)).length;
  ensure(early >= LONG_FILES / 2 - 1, `long ones ended as ${longOrder.join(' ')}`);
  const lastShort = order.findLastIndex((id) => shortOnes.has(id));
  const longBefore = order.slice(0, lastShort).filter((id) => !shortOnes.has(id)).length;
  process.stderr.write(
    `chaos: ${longBefore} of ${LONG_FILES} long ones ended before the last short one\n`,
  );
  ensure(longBefore <= LONG_FILES / 2, 'short ones waited for the long ones');
  const outcome = await bench.outcome(null, 1);
  return outcome;
}

export const longBesideShort: Scenario = {
  name: 'long-beside-short',
  fault: `${LONG_FILES} long recordings are there before short ones come`,
  run: mixLengths,
};

/** Beside it, taking up, decoding and searching a short recording is little. */
const SLOW_PACE_MS = 500;
const TEN_MINUTES = 60;

/**
 * A short job comes when a long one has all slots, whose native calls take one segment each. With a slot for each of them the
 * short one gets the next that is free; with one slot and a better priority it is the next to run, too.
 */
async function overtake(context: ScenarioContext, slots: number, priority: number) {
  const pace = { paceMs: SLOW_PACE_MS, batch: 1, slots, notes: true };
  await using bench = await FaultBench.open(context, pace);
  const path = writeSpacedRecording(bench.folder, TEN_MINUTES, context.seed);
  const long = { id: 'long', input: { kind: 'path', path } } as const;
  bench.ledger.expect(long.id, { code: 'CANCELLED' });
  const begun = bench.nextRun(long.id);
  await bench.queue.add(long);
  await begun;
  for (let time = 0; time < context.times; time += 1) {
    const before = recognized(bench);
    const ids = await bench.add(1, { priority });
    await bench.ends(ids);
    // Its own one aside: those that ran when it came, and one for each slot while it was taken up.
    const others = recognized(bench) - before - 1;
    process.stderr.write(`chaos: ${others} segments of the long one were begun meanwhile\n`);
    ensure(others <= 2 * slots, `${others} segments of the long one came first`);
  }
  await bench.queue.cancel(long.id);
  await bench.ends([long.id]);
  const outcome = await bench.outcome(null, context.times);
  return outcome;
}

export const shortBesideLong: Scenario = {
  name: 'short-beside-long',
  fault: 'a short job comes while a long one has both slots',
  run: (context) => overtake(context, 2, 1_000),
};

export const urgentBehindLong: Scenario = {
  name: 'urgent-behind-long',
  fault: 'an urgent job comes while a long one has the only slot',
  run: (context) => overtake(context, 1, 0),
};

/** With one slot and a pace that outlasts the tolerance, a job that waits says so. */
async function waitIsTold(context: ScenarioContext) {
  await using bench = await FaultBench.open(context, { paceMs: 4 * SLOW_PACE_MS, batch: 1 });
  const begun = bench.nextRun();
  const [first = ''] = await bench.add(1);
  await begun;
  const phases: string[] = [];
  bench.queue.on('progress', ({ id, progress }) => {
    if (id !== first) phases.push(progress.phase);
  });
  await bench.add(1);
  await bench.allEnded();
  const told = [...new Set(phases)].join();
  ensure(told === 'waiting,running', `the second job was told to be ${told}`);
  const outcome = await bench.outcome(null, 1);
  return outcome;
}

export const waitTold: Scenario = {
  name: 'wait-told',
  fault: 'the only slot is busy for seconds',
  run: waitIsTold,
};

export const LONG_SCENARIOS = [
  killedLate,
  longBesideShort,
  shortBesideLong,
  urgentBehindLong,
  waitTold,
];
