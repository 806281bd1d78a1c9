/**
 * Speech detection alone, on one thread: our Silero VAD beside the very ONNX file that its weights are made from, in
 * onnxruntime, window by window as Silero's own package does it, and beside faster-whisper's form of the model, which takes a
 * file as a whole. Decoded samples in, probabilities out, in turn; then the segments that our segmenter cuts by each.
 *
 *   npm run bench -- vad [--seconds S] [--rounds N] [--dry]
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import { VadOptions } from '../dist/src/core/job.js';
import { NativeEngine } from '../dist/src/engine/native-engine.js';
import { createSegmenter } from '../dist/src/worker/speech-segmenter.js';
import { pullModel } from './ours.mjs';
import { PythonProgram, preparePython, prepareWheel } from './python.mjs';
import { report } from './report.mjs';
import { describeRatio, interleave, median, ratios } from './rounds.mjs';
import { prepareLong } from './utterances.mjs';

const CACHE = path.join(import.meta.dirname, '.cache');
const SPEECH = path.resolve(import.meta.dirname, '../test/fixtures/speech');
const RATE = 16_000;
const OURS = 'Wavepool';
/** Whole windows in 30 s: what a worker decodes and searches at a time. */
const WINDOWS_PER_STEP = 937;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '300' },
    rounds: { type: 'string', default: '5' },
    dry: { type: 'boolean', default: false },
  },
});

/** The file of the release that our weights are made from, byte for byte. */
function prepareSilero(python) {
  const file = 'silero_vad/data/silero_vad.onnx';
  const folder = prepareWheel(
    CACHE,
    python,
    'silero-vad==6.2.3',
    'silero_vad-6.2.3-py3-none-any.whl',
    [file],
  );
  return path.join(folder, file);
}

/** Runs over decoded audio as a worker does; seconds are those of detection. */
class OurDetector {
  #model;
  #pool;
  #audio;

  static async start(file) {
    const detector = new OurDetector();
    const engine = new NativeEngine();
    detector.#model = await engine.loadModel(pullModel('silero-vad'));
    const options = { slots: 1, threads: 1, maxBatch: 1, mode: 'offline' };
    detector.#pool = await detector.#model.createPool(options);
    detector.#audio = await engine.openAudio({ kind: 'file', path: file });
    await detector.#audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    return detector;
  }

  get windowSamples() {
    return this.#model.info.windowSamples;
  }

  get samples() {
    return this.#audio.endSample;
  }

  async run() {
    const startedAt = performance.now();
    const audio = this.#audio;
    const state = this.#model.createState();
    const step = WINDOWS_PER_STEP * this.windowSamples;
    const probabilities = [];
    for (let startSample = 0; startSample < audio.endSample; startSample += step) {
      const endSample = Math.min(startSample + step, audio.endSample);
      const item = { audio, startSample, endSample, state, options: {} };
      const [outcome] = await this.#pool.run(0, [item]).done;
      if (!outcome.ok) throw outcome.error;
      probabilities.push(...outcome.result.probabilities);
    }
    return { seconds: (performance.now() - startedAt) / 1000, probabilities };
  }

  async stop() {
    await this.#audio.close();
    await this.#pool.close();
    await this.#model.close();
  }
}

function segmentsOf(probabilities, { windowSamples, samples }) {
  const segmenter = createSegmenter({
    vad: VadOptions.parse({}),
    windowSamples,
    longestSeconds: Number.POSITIVE_INFINITY,
  });
  return [...segmenter.push(probabilities), ...segmenter.finish(samples)];
}

function largestDifference(some, others) {
  if (some.length !== others.length) return Number.POSITIVE_INFINITY;
  return some.reduce((largest, value, i) => Math.max(largest, Math.abs(value - others[i])), 0);
}

/** In windows; infinite when there are more segments on one side. */
function farthestBoundary(some, others, windowSamples) {
  const boundaries = (segments) =>
    segments.flatMap(({ startSample, endSample }) => [startSample, endSample]);
  return largestDifference(boundaries(some), boundaries(others)) / windowSamples;
}

function row(result, peer, detector) {
  const { samples, windowSamples } = detector;
  const [ours, theirs] = [OURS, peer].map((name) => result.last.get(name).probabilities);
  const speed = (name) => (samples / RATE / median(result.seconds.get(name))).toFixed(0);
  const [mine, other] = [ours, theirs].map((each) => segmentsOf(each, detector));
  const apart = farthestBoundary(mine, other, windowSamples);
  const segments = Number.isFinite(apart)
    ? `${mine.length}, boundaries at most ${apart.toFixed(1)} windows apart`
    : `${mine.length} / ${other.length}`;
  const decisions = ours.filter((p, i) => p >= 0.5 !== theirs[i] >= 0.5).length;
  const all = ratios(result, OURS, peer);
  return `| ${peer} | ${describeRatio(all)} | ${speed(OURS)} / ${speed(peer)} | ${largestDifference(ours, theirs).toExponential(1)} | ${decisions} of ${ours.length} | ${segments} | ${all.length} |`;
}

async function main() {
  const python = preparePython(CACHE);
  const model = prepareSilero(python);
  const audio = prepareLong({ speech: SPEECH, folder: CACHE, seconds: Number(values.seconds) });
  const [file] = audio.files;
  const detector = await OurDetector.start(file);
  const program = (whole) => PythonProgram.start(python, 'silero_program.py', { model, whole });
  const peers = new Map([
    ['Silero VAD in onnxruntime, window by window', await program(false)],
    ['faster-whisper’s Silero VAD in onnxruntime, whole file', await program(true)],
  ]);
  const contestants = [...peers].map(([name, peer]) => ({ name, run: () => peer.ask({ file }) }));
  const result = await interleave(
    [{ name: OURS, run: () => detector.run() }, ...contestants],
    Number(values.rounds),
  );
  const head = [
    '| Peer, one thread | Ratio, median (range) of rounds | Audio s per s, ours / peer | Largest difference | Decisions that differ | Segments | Rounds |',
    '|---|---|---|---|---|---|---|',
  ];
  const rows = [...peers.keys()].map((name) => row(result, name, detector));
  report('vad', [...head, ...rows], !values.dry);
  for (const peer of peers.values()) await peer.stop();
  await detector.stop();
}

await main();
