/**
 * Speech detection alone, on one thread: our Silero VAD beside the very ONNX file that its weights are made from, in
 * onnxruntime, window by window as Silero's own package does it, and beside faster-whisper's form of the model, which takes a
 * file as a whole. Decoded samples in, probabilities out, in turn; then the segments that our segmenter cuts by each.
 */
import { VadOptions } from '../../dist/src/core/job/job.js';
import { NativeEngine } from '../../dist/src/engine/native-engine.js';
import { createSegmenter } from '../../dist/src/worker/speech/speech-segmenter.js';
import { prepareLong, RATE } from '../audio.mjs';
import { pullModel } from '../ours.mjs';
import { PythonProgram, preparePython } from '../python.mjs';
import { interleave, ratios } from '../rounds.mjs';
import { audioSpeed, contestChart, number, ratioRange, table } from '../tables.mjs';
import { audioFor, timeFor } from './contest.mjs';
import { prepareSilero } from './silero.mjs';

/** Whole windows in 30 s: what a worker decodes and searches at a time. */
const WINDOWS_PER_STEP = 937;
const planned = { speeds: [1_400, 120, 400], overhead: 0.5 };

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

/** How far apart the two sides are; compared with ours. */
function agreement(ours, theirs, detector) {
  const [mine, other] = [ours, theirs].map((each) => segmentsOf(each, detector));
  const apart = farthestBoundary(mine, other, detector.windowSamples);
  return {
    windows: ours.length,
    largestDifference: largestDifference(ours, theirs),
    decisionsApart: ours.filter((p, i) => p >= 0.5 !== theirs[i] >= 0.5).length,
    segments: [mine.length, other.length],
    // JSON has no infinity.
    windowsApart: Number.isFinite(apart) ? apart : null,
  };
}

function describeSegments({ segments: [mine, other], windowsApart }) {
  if (windowsApart === null) return `${mine} / ${other}`;
  return `${mine}, boundaries at most ${windowsApart.toFixed(1)} windows apart`;
}

export const vad = {
  name: 'vad',
  title: 'Silero VAD on one thread',
  share: 0.7,
  settings: (seconds, { audioSeconds }) => {
    return { seconds: audioSeconds ?? audioFor(seconds, { ...planned, least: 60, most: 1_200 }) };
  },
  estimate: ({ seconds }, time) => timeFor(seconds, planned, time),
  async measure({ seconds }, { cache, limits }) {
    const model = prepareSilero(cache);
    const audio = prepareLong(cache, seconds);
    const [file] = audio.files;
    const python = preparePython(cache);
    const detector = await OurDetector.start(file);
    const program = (whole) => PythonProgram.start(python, 'silero_program.py', { model, whole });
    const windows = await program(false);
    const whole = await program(true);
    const theirs = (name, short, peer) => {
      return { name, short, run: () => peer.ask({ file }), pids: () => [peer.pid] };
    };
    const results = await interleave(
      [
        {
          ...{ name: 'Wavepool', short: 'Wavepool', ours: true },
          ...{ run: () => detector.run(), pids: () => [process.pid] },
        },
        theirs('Silero VAD in onnxruntime, window by window', 'onnxruntime, windows', windows),
        theirs(
          'faster-whisper’s Silero VAD in onnxruntime, whole file',
          'onnxruntime, whole',
          whole,
        ),
      ],
      limits,
    );
    const ours = results[0].found.probabilities;
    const contestants = results.map(({ found, ...facts }, index) => {
      const compared = index === 0 ? {} : agreement(ours, found.probabilities, detector);
      return { ...facts, audioSeconds: detector.samples / RATE, ...compared };
    });
    await windows.stop();
    await whole.stop();
    await detector.stop();
    return { audioSeconds: audio.seconds, contestants };
  },
  document({ data: { audioSeconds, contestants } }) {
    const [ours, ...theirs] = contestants;
    const head = [
      'Peer, one thread',
      'Our speed ÷ its speed',
      'Audio s per s, ours / peer',
      'Largest difference',
      'Decisions that differ',
      'Segments',
      'Rounds',
    ];
    const rows = theirs.map((peer) => [
      peer.name,
      ratioRange(ratios(ours, peer)),
      `${number(audioSpeed(ours))} / ${number(audioSpeed(peer))}`,
      peer.largestDifference.toExponential(1),
      `${peer.decisionsApart} of ${peer.windows}`,
      describeSegments(peer),
      String(peer.rounds.length),
    ]);
    const lines = [`${Math.round(audioSeconds)} s of speech.`, '', ...table(head, rows)];
    return { lines, charts: { vad: contestChart(this.title, contestants) } };
  },
};
