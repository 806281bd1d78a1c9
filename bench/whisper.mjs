/**
 * Whisper tiny.en: Wavepool beside whisper.cpp's own program and faster-whisper, same weights, same audio, greedy, on a folder
 * of utterances and on one long recording. Every round runs each contestant once, in turn; what counts is the median over
 * the rounds of the ratio within a round. Every word of the audio is known: the word error rate of each is told.
 *
 *   npm run bench -- whisper [--utterances N] [--long-seconds S] [--rounds N] [--long-rounds N] [--models A,B] [--slots N]
 *     [--dry]
 *   npm run bench -- whisper --trials     other settings of the peers, once each, on little audio
 */
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { wordErrorRate } from '../dist/src/core/word-error-rate.js';
import { FasterWhisper, prepareFasterWhisperModel, runFasterWhisper } from './faster-whisper.mjs';
import { OurEngine, pullModel, runCommand } from './ours.mjs';
import { preparePython } from './python.mjs';
import { report } from './report.mjs';
import { describeRatio, interleave, median, ratios } from './rounds.mjs';
import { prepareLong, prepareUtterances } from './utterances.mjs';
import { prepareWhisperCli, runWhisperCli } from './whisper-cli.mjs';

const CACHE = path.join(import.meta.dirname, '.cache');
const SPEECH = path.resolve(import.meta.dirname, '../test/fixtures/speech');
const CORES = os.availableParallelism();
/** What both peers' weights are made from; the full one. */
const BASE_MODEL = 'whisper-tiny.en';
/** Neither peer is asked for times of utterances, which makes both faster; ours tells them all the same. */
const NO_TIMES = ['-nt'];
/** Frames of 20 ms: what the longest utterance needs under our own rule (docs/models.md), for all of them. */
const SHORT_CONTEXT = ['-ac', '768'];
/** Without times, which is its default, the pipeline loses whole sentences of a chunk. */
const PIPELINES = [
  { batch: 8, withoutTimestamps: true },
  { batch: 16, withoutTimestamps: true },
  { batch: 16, withoutTimestamps: false },
];
const TRIAL_UTTERANCES = 22;
const TRIAL_SECONDS = 120;

const { values } = parseArgs({
  options: {
    utterances: { type: 'string', default: '88' },
    'long-seconds': { type: 'string', default: '600' },
    rounds: { type: 'string', default: '3' },
    'long-rounds': { type: 'string', default: '3' },
    slots: { type: 'string' },
    models: { type: 'string', default: `${BASE_MODEL},${BASE_MODEL}-q8_0` },
    trials: { type: 'boolean', default: false },
    dry: { type: 'boolean', default: false },
  },
});

function prepare() {
  const python = preparePython(CACHE);
  const models = values.models.split(',');
  return {
    models,
    weights: new Map([BASE_MODEL, ...models].map((id) => [id, pullModel(id)])),
    cli: prepareWhisperCli(CACHE),
    python,
    fasterWhisper: prepareFasterWhisperModel(CACHE, python),
  };
}

function command(model, audio) {
  const { slots } = values;
  const options = slots === undefined ? [] : ['--workers', '1', '--unvalidated-slots', slots];
  return {
    name: `\`${['wavepool run --model', model, ...options].join(' ')}\``,
    run: () => runCommand(audio.folder, audio.names, ['--model', model, ...options]),
  };
}

function whisperCli(peers, audio, settings) {
  const { processes = 1, threads = 1, options = [], model = BASE_MODEL } = settings;
  const shape = processes > 1 ? `${processes} processes × ${threads} thread` : `${threads} threads`;
  const flags = options.length > 0 ? `, \`${options.join(' ')}\`` : '';
  const weights = model === BASE_MODEL ? '' : `, ${model.split('-').at(-1)}`;
  return {
    name: `whisper-cli, ${shape}${flags}${weights}`,
    run: () =>
      runWhisperCli(
        peers.cli,
        { model: peers.weights.get(model), processes, threads, options },
        audio.files,
      ),
  };
}

function fasterWhisper(peers, audio, given) {
  const { workers = 1, threads = 1, batch = 0, withoutTimestamps = true } = given;
  const shape = workers > 1 ? `${workers} workers × ${threads} thread` : `${threads} threads`;
  const batched = batch > 0 ? `, batched pipeline, batch ${batch}` : '';
  const flags = withoutTimestamps ? '' : ', with times';
  const settings = { model: peers.fasterWhisper, workers, threads, batch, withoutTimestamps };
  return {
    name: `faster-whisper int8, ${shape}${batched}${flags}`,
    run: () => runFasterWhisper(peers.python, settings, audio.files),
  };
}

/** A row for each of ours beside each of theirs. */
function compare(what, result, audio, ours, theirs) {
  const speed = (name) => (audio.seconds / median(result.seconds.get(name))).toFixed(1);
  const errors = (name) => {
    const { texts } = result.last.get(name);
    const rate = wordErrorRate(audio.references.map((reference, i) => [reference, texts[i]]));
    return `${(100 * rate).toFixed(2)} %`;
  };
  return ours.flatMap((mine) =>
    theirs.map((peer) => {
      const all = ratios(result, mine.name, peer.name);
      return `| ${what}: ${mine.name} | ${peer.name} | ${describeRatio(all)} | ${speed(mine.name)} / ${speed(peer.name)} | ${errors(mine.name)} / ${errors(peer.name)} | ${all.length} |`;
    }),
  );
}

/** Everything included for everybody: programs started, models loaded, results written, all ended. */
async function measureUtterances(peers, audio) {
  console.log(`Utterances: ${audio.files.length}, ${audio.seconds.toFixed(0)} s of audio`);
  const ours = peers.models.map((model) => command(model, audio));
  const theirs = [
    whisperCli(peers, audio, { processes: CORES, options: NO_TIMES }),
    whisperCli(peers, audio, { processes: CORES, options: [...NO_TIMES, ...SHORT_CONTEXT] }),
    fasterWhisper(peers, audio, { workers: CORES }),
  ];
  const result = await interleave([...ours, ...theirs], Number(values.rounds));
  return compare('utterances', result, audio, ours, theirs);
}

/** Models loaded before the clock starts; audio files decoded while it runs. */
async function measureEngine(peers, audio) {
  console.log(`Engine: ${audio.files.length} utterances, models loaded beforehand`);
  const settings = {
    model: peers.fasterWhisper,
    workers: CORES,
    threads: 1,
    withoutTimestamps: true,
  };
  const peer = await FasterWhisper.start(peers.python, settings);
  const engines = await Promise.all(
    peers.models.map(async (model) => ({
      name: `engine, ${model}, ${CORES} slots × 1 thread`,
      engine: await OurEngine.start({
        weights: peers.weights.get(model),
        slots: CORES,
        threads: 1,
        batch: 1,
      }),
    })),
  );
  const ours = engines.map(({ name, engine }) => ({ name, run: () => engine.run(audio.files) }));
  const theirs = [
    {
      name: `faster-whisper int8, ${CORES} workers × 1 thread, loaded`,
      run: () => peer.run(audio.files),
    },
  ];
  const result = await interleave([...ours, ...theirs], Number(values.rounds));
  await peer.stop();
  for (const { engine } of engines) await engine.stop();
  return compare('utterances', result, audio, ours, theirs);
}

/** Everything included for everybody, as with utterances. */
async function measureLong(peers, audio) {
  console.log(`One recording of ${audio.seconds.toFixed(0)} s`);
  const ours = peers.models.map((model) => command(model, audio));
  const theirs = [
    whisperCli(peers, audio, { threads: CORES }),
    ...PIPELINES.map((pipeline) => fasterWhisper(peers, audio, { threads: CORES, ...pipeline })),
  ];
  const result = await interleave([...ours, ...theirs], Number(values['long-rounds']));
  const what = `${Math.round(audio.seconds)} s in one file`;
  return compare(what, result, audio, ours, theirs);
}

/** What the settings above were chosen by. */
async function tryOthers(peers) {
  const quantized = `${BASE_MODEL}-q8_0`;
  peers.weights.set(quantized, pullModel(quantized));
  const clips = prepareUtterances({ speech: SPEECH, folder: CACHE, count: TRIAL_UTTERANCES });
  const long = prepareLong({ speech: SPEECH, folder: CACHE, seconds: TRIAL_SECONDS });
  const cli = (audio, settings) => [audio, whisperCli(peers, audio, settings)];
  const faster = (audio, settings) => [audio, fasterWhisper(peers, audio, settings)];
  const candidates = [
    cli(clips, { processes: CORES }),
    cli(clips, { processes: CORES, options: NO_TIMES }),
    cli(clips, { processes: CORES, options: [...NO_TIMES, ...SHORT_CONTEXT] }),
    cli(clips, { processes: CORES, options: NO_TIMES, model: quantized }),
    cli(clips, { threads: CORES, options: NO_TIMES }),
    faster(clips, { workers: CORES }),
    faster(clips, { workers: CORES, withoutTimestamps: false }),
    faster(clips, { threads: CORES }),
    cli(long, { threads: CORES }),
    cli(long, { threads: 1, options: ['-p', String(CORES)] }),
    cli(long, { threads: CORES, model: quantized }),
    ...PIPELINES.map((pipeline) => faster(long, { threads: CORES, ...pipeline })),
  ];
  for (const [audio, { name, run }] of candidates) {
    const { seconds, texts } = await run();
    const rate = wordErrorRate(audio.references.map((reference, i) => [reference, texts[i]]));
    const speed = (audio.seconds / seconds).toFixed(1);
    const what = audio === clips ? 'utterances' : 'long';
    console.log(`${what}: ${name}: ${speed} audio s per s, ${(100 * rate).toFixed(2)} % WER`);
  }
}

async function main() {
  const peers = prepare();
  if (values.trials) return tryOthers(peers);
  const count = Number(values.utterances);
  const seconds = Number(values['long-seconds']);
  const rows = [];
  if (count > 0) {
    const audio = prepareUtterances({ speech: SPEECH, folder: CACHE, count });
    rows.push(...(await measureUtterances(peers, audio)), ...(await measureEngine(peers, audio)));
  }
  if (seconds > 0) {
    const audio = prepareLong({ speech: SPEECH, folder: CACHE, seconds });
    rows.push(...(await measureLong(peers, audio)));
  }
  const head = [
    '| What | Peer | Ratio, median (range) of rounds | Audio s per s, ours / peer | WER, ours / peer | Rounds |',
    '|---|---|---|---|---|---|',
  ];
  report('whisper', [...head, ...rows], !values.dry);
}

await main();
