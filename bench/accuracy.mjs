/**
 * Word error rates on the shipped readings: `wavepool run`, and sherpa-onnx given the very segments that it found. The same
 * weights and the same audio, so what differs is the kernels and how decoding ends.
 *
 *   node bench/accuracy.mjs [--json]
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { wordErrorRate } from '../dist/test/support/word-error-rate.js';
import { prepareSherpaModel, Sherpa } from './sherpa.mjs';
import { percent } from './tables.mjs';

const ROOT = path.resolve(import.meta.dirname, '..');
const SPEECH = path.join(ROOT, 'test/fixtures/speech');
const CACHE = path.join(import.meta.dirname, '.cache');

function run(command, args) {
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
}

function readReferences() {
  const [, ...lines] = readFileSync(path.join(SPEECH, 'transcripts.tsv'), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) => line.split('\t'));
}

function cutSegment(file, { start, end }, target) {
  const range = ['-ss', String(start), '-to', String(end)];
  run('ffmpeg', ['-v', 'error', '-i', file, ...range, '-ac', '1', '-ar', '16000', target]);
}

const folder = mkdtempSync(path.join(tmpdir(), 'wavepool-accuracy-'));
try {
  const out = path.join(folder, 'out');
  const cli = path.join(ROOT, 'dist/src/cli/main.js');
  const places = ['--out', out, '--data-dir', path.join(folder, 'data')];
  run(process.execPath, [cli, 'run', SPEECH, ...places, '--format', 'json', '--quiet']);

  mkdirSync(CACHE, { recursive: true });
  const model = await prepareSherpaModel(CACHE);
  const sherpa = await Sherpa.start({ model, processes: 1, threads: 1 });
  const pairs = { wavepool: [], sherpa: [] };
  let segmentCount = 0;
  for (const [file, reference] of readReferences()) {
    const { text, segments } = JSON.parse(
      readFileSync(path.join(out, `${path.parse(file).name}.json`), 'utf8'),
    );
    const clips = segments.map((segment, index) => {
      const clip = path.join(folder, `${path.parse(file).name}-${index}.wav`);
      cutSegment(path.join(SPEECH, file), segment, clip);
      return clip;
    });
    segmentCount += clips.length;
    const { texts } = await sherpa.run(clips);
    pairs.wavepool.push([reference, text]);
    pairs.sherpa.push([reference, texts.join(' ')]);
  }
  await sherpa.stop();
  const between = pairs.sherpa.map(([, text], i) => [text, pairs.wavepool[i][1]]);
  const found = {
    readings: pairs.wavepool.length,
    segments: segmentCount,
    wavepool: wordErrorRate(pairs.wavepool),
    sherpa: wordErrorRate(pairs.sherpa),
    between: wordErrorRate(between),
  };
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify(found));
  } else {
    console.log(`${found.readings} readings, ${found.segments} segments`);
    console.log(`wavepool run      ${percent(found.wavepool)}`);
    console.log(`sherpa-onnx       ${percent(found.sherpa)}`);
    console.log(`between the two   ${percent(found.between)}`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
