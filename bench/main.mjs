/**
 * Wavepool beside its peers on the same clips and weights. Every round runs each contestant once, in turn; what counts
 * is the median over the rounds of the ratio within a round, so a machine that slows down slows everybody.
 *
 *   npm run bench -- [--clips N] [--rounds N] [--engine-clips N] [--skip-run]
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { prepareClips } from './clips.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.resolve(HERE, '..');
const CACHE = path.join(HERE, '.cache');
const SPEECH = path.join(ROOT, 'test/fixtures/speech');

const { values } = parseArgs({
  options: {
    clips: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '3' },
    'engine-clips': { type: 'string', default: '160' },
    'engine-rounds': { type: 'string', default: '5' },
    'skip-run': { type: 'boolean', default: false },
  },
});

function prepare() {
  for (const [command, args, cwd] of [
    [process.execPath, ['scripts/setup.mjs'], ROOT],
    ['npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--silent'], HERE],
  ]) {
    if (cwd === HERE && existsSync(path.join(HERE, 'node_modules/sherpa-onnx-node'))) continue;
    const { status } = spawnSync(command, args, { cwd, stdio: 'inherit' });
    if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed`);
  }
  mkdirSync(CACHE, { recursive: true });
}

function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Runs every contestant once per round, in turn; returns their seconds by round and their last texts. */
async function interleave(contestants, rounds) {
  const seconds = new Map(contestants.map(({ name }) => [name, []]));
  const texts = new Map();
  for (let round = 1; round <= rounds; round += 1) {
    for (const { name, run } of contestants) {
      const result = await run();
      seconds.get(name).push(result.seconds);
      texts.set(name, result.texts);
      console.log(`  round ${round}: ${name}: ${result.seconds.toFixed(1)} s`);
    }
  }
  return { seconds, texts };
}

function ratios(result, ours, theirs) {
  const mine = result.seconds.get(ours);
  return result.seconds.get(theirs).map((seconds, round) => seconds / mine[round]);
}

async function main() {
  prepare();
  const { prepareSherpaModel, Sherpa } = await import('./sherpa.mjs');
  const { OurEngine, runCommand } = await import('./ours.mjs');
  const { wordErrorRate } = await import('../dist/src/core/word-error-rate.js');
  const model = await prepareSherpaModel(CACHE);
  const weights = JSON.parse(
    spawnSync(process.execPath, ['dist/src/cli/main.js', 'models', 'list', '--json'], {
      cwd: ROOT,
      encoding: 'utf8',
    }).stdout,
  ).models.find(({ id }) => id === 'moonshine-tiny').path;
  const clips = prepareClips({ speech: SPEECH, folder: CACHE, count: Number(values.clips) });
  const few = clips.files.slice(0, Number(values['engine-clips']));
  const durations = JSON.parse(readFileSync(path.join(clips.folder, 'clips.json'), 'utf8'));
  const fewSeconds = durations.slice(0, few.length).reduce((sum, { seconds }) => sum + seconds, 0);
  const rows = [];
  const cores = os.availableParallelism();
  const record = (what, result, ours, theirs, audioSeconds) => {
    const all = ratios(result, ours, theirs);
    const agree = wordErrorRate(
      result.texts.get(theirs).map((text, i) => [text, result.texts.get(ours)[i]]),
    );
    rows.push({
      what,
      theirs,
      ratio: median(all),
      range: [Math.min(...all), Math.max(...all)],
      oursRealTime: audioSeconds / median(result.seconds.get(ours)),
      theirsRealTime: audioSeconds / median(result.seconds.get(theirs)),
      difference: agree,
      rounds: all.length,
    });
  };

  console.log(`Engine: ${few.length} clips, ${fewSeconds.toFixed(0)} s of audio, ${cores} cores`);
  const two = await Sherpa.start({ model, processes: cores, threads: 1 });
  const one = await Sherpa.start({ model, processes: 1, threads: 1 });
  const batch = await OurEngine.start({ weights, slots: cores, threads: 1, batch: 8 });
  const single = await OurEngine.start({ weights, slots: 1, threads: 1, batch: 1 });
  const peers = [`sherpa-onnx, ${cores} processes × 1 thread`, 'sherpa-onnx, 1 thread'];
  const engine = await interleave(
    [
      { name: `engine, ${cores} slots × 1 thread, batch 8`, run: () => batch.run(few) },
      { name: peers[0], run: () => two.run(few) },
      { name: 'engine, 1 thread, one clip at a time', run: () => single.run(few) },
      { name: peers[1], run: () => one.run(few) },
    ],
    Number(values['engine-rounds']),
  );
  record(
    'engine, native batch 8, all cores',
    engine,
    `engine, ${cores} slots × 1 thread, batch 8`,
    peers[0],
    fewSeconds,
  );
  record(
    'engine, one clip at a time, one thread',
    engine,
    'engine, 1 thread, one clip at a time',
    peers[1],
    fewSeconds,
  );
  one.stop();
  two.stop();
  await batch.stop();
  await single.stop();

  if (!values['skip-run']) {
    console.log(
      `wavepool run: ${clips.files.length} clips, ${clips.seconds.toFixed(0)} s of audio`,
    );
    const names = clips.files.map((file) => path.basename(file));
    const whole = await interleave(
      [
        { name: 'wavepool run', run: () => runCommand(clips.folder, names, []) },
        {
          name: peers[0],
          // Loading its model counts here, as everything does for `wavepool run`.
          run: async () => {
            const startedAt = performance.now();
            const sherpa = await Sherpa.start({ model, processes: cores, threads: 1 });
            const { texts } = await sherpa.run(clips.files);
            sherpa.stop();
            return { seconds: (performance.now() - startedAt) / 1000, texts };
          },
        },
      ],
      Number(values.rounds),
    );
    record('`wavepool run`, everything included', whole, 'wavepool run', peers[0], clips.seconds);
  }
  report(rows, cores);
}

function report(rows, cores) {
  const cpu = os.cpus()[0]?.model ?? 'unknown';
  const lines = [
    `Machine: ${cores} × ${cpu}, Node ${process.versions.node}. Command: \`npm run bench -- ${process.argv.slice(2).join(' ')}\``.trimEnd(),
    '',
    '| What | Peer | Ratio, median (range) of rounds | Audio s per s, ours / peer | Words that differ | Rounds |',
    '|---|---|---|---|---|---|',
    ...rows.map(
      (row) =>
        `| ${row.what} | ${row.theirs} | **${row.ratio.toFixed(2)} ×** (${row.range.map((r) => r.toFixed(2)).join('–')}) | ${row.oursRealTime.toFixed(0)} / ${row.theirsRealTime.toFixed(0)} | ${(100 * row.difference).toFixed(1)} % | ${row.rounds} |`,
    ),
  ];
  console.log(`\n${lines.join('\n')}`);
  const file = path.join(ROOT, 'docs/performance.md');
  const begin = '<!-- measured: written by npm run bench -->';
  const end = '<!-- end of measured -->';
  const text = readFileSync(file, 'utf8');
  const [before] = text.split(begin);
  const [, after] = text.split(end);
  writeFileSync(file, `${before}${begin}\n${lines.join('\n')}\n${end}${after}`);
}

await main();
