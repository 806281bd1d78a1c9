/**
 * Wavepool beside its peers on the same clips and weights. Every round runs each contestant once, in turn; what counts
 * is the median over the rounds of the ratio within a round, so a machine that slows down slows everybody.
 *
 *   npm run bench -- moonshine [--clips N] [--rounds N] [--engine-clips N] [--skip-run]
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { prepareClips } from './clips.mjs';
import { report } from './report.mjs';
import { describeRatio, interleave, median, ratios } from './rounds.mjs';

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
  if (existsSync(path.join(HERE, 'node_modules/sherpa-onnx-node'))) return;
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--silent'];
  const { status } = spawnSync('npm', args, { cwd: HERE, stdio: 'inherit' });
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed`);
}

async function main() {
  prepare();
  const { prepareSherpaModel, Sherpa } = await import('./sherpa.mjs');
  const { OurEngine, pullModel, runCommand } = await import('./ours.mjs');
  const { wordErrorRate } = await import('../dist/src/core/word-error-rate.js');
  const model = await prepareSherpaModel(CACHE);
  const weights = pullModel('moonshine-tiny');
  const clips = prepareClips({ speech: SPEECH, folder: CACHE, count: Number(values.clips) });
  const few = clips.files.slice(0, Number(values['engine-clips']));
  const durations = JSON.parse(readFileSync(path.join(clips.folder, 'clips.json'), 'utf8'));
  const fewSeconds = durations.slice(0, few.length).reduce((sum, { seconds }) => sum + seconds, 0);
  const rows = [];
  const cores = os.availableParallelism();
  const record = (what, result, ours, theirs, audioSeconds) => {
    const all = ratios(result, ours, theirs);
    const agree = wordErrorRate(
      result.last.get(theirs).texts.map((text, i) => [text, result.last.get(ours).texts[i]]),
    );
    rows.push({
      what,
      theirs,
      ratios: all,
      oursRealTime: audioSeconds / median(result.seconds.get(ours)),
      theirsRealTime: audioSeconds / median(result.seconds.get(theirs)),
      difference: agree,
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
  publish(rows);
}

function publish(rows) {
  report(
    'moonshine',
    [
      '| What | Peer | Ratio, median (range) of rounds | Audio s per s, ours / peer | Words that differ | Rounds |',
      '|---|---|---|---|---|---|',
      ...rows.map(
        (row) =>
          `| ${row.what} | ${row.theirs} | ${describeRatio(row.ratios)} | ${row.oursRealTime.toFixed(0)} / ${row.theirsRealTime.toFixed(0)} | ${(100 * row.difference).toFixed(1)} % | ${row.ratios.length} |`,
      ),
    ],
    true,
  );
}

await main();
