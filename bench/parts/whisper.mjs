/**
 * Whisper tiny.en beside whisper.cpp's own program and faster-whisper, the same weights, greedy: the engine alone, clips, and one
 * long recording, on which faster-whisper runs its batched pipeline.
 */
import { prepareClips, prepareLong } from '../audio.mjs';
import { FasterWhisper, prepareFasterWhisperModel, runFasterWhisper } from '../faster-whisper.mjs';
import { OurEngine, pullModel, runCommand } from '../ours.mjs';
import { preparePython } from '../python.mjs';
import { prepareWhisperCli, runWhisperCli } from '../whisper-cli.mjs';
import { audioFor, CORES, contest, documentContest, timeFor } from './contest.mjs';
import { LONG_FILE_ARGS } from './moonshine.mjs';

const MODEL = 'whisper-tiny.en';
const CLIP_SECONDS = 7.5;
/** Neither peer is asked for times of clips, which makes both faster; ours tells them all the same. */
const NO_TIMES = ['-nt'];
/** Frames of 20 ms: what the longest clip needs under our own rule (docs/models.md), for all of them. */
const SHORT_CONTEXT = ['-ac', '768'];
/** Without times, which is its default, the pipeline loses whole sentences of a chunk. */
const PIPELINES = [
  { batch: 8, withoutTimestamps: true },
  { batch: 16, withoutTimestamps: true },
  { batch: 16, withoutTimestamps: false },
];

function preparePeers(cache) {
  const python = preparePython(cache);
  return {
    weights: pullModel(MODEL),
    cli: prepareWhisperCli(cache),
    python,
    fasterWhisper: prepareFasterWhisperModel(cache, python),
  };
}

function ours(audio, args) {
  const all = ['--model', MODEL, ...args];
  return {
    name: `\`wavepool run ${all.join(' ')}\``,
    short: 'wavepool run',
    ours: true,
    run: () => runCommand(audio, all),
  };
}

function whisperCli({ cli, weights }, audio, { processes = 1, threads = 1, options = [] }) {
  const shape = processes > 1 ? `${processes} processes × ${threads} thread` : `${threads} threads`;
  const flags = options.length > 0 ? `, \`${options.join(' ')}\`` : '';
  const settings = { model: weights, processes, threads, options };
  return {
    name: `whisper-cli, ${shape}${flags}`,
    short: options.includes('-ac') ? 'whisper-cli, short context' : 'whisper-cli',
    peer: 'whisper-cli',
    run: () => runWhisperCli(cli, settings, audio.files),
  };
}

function fasterWhisper({ python, fasterWhisper: model }, audio, given) {
  const { workers = 1, threads = 1, batch = 0, withoutTimestamps = true } = given;
  const shape = workers > 1 ? `${workers} workers × ${threads} thread` : `${threads} threads`;
  const batched = batch > 0 ? `, batched pipeline, batch ${batch}` : '';
  const flags = withoutTimestamps ? '' : ', with times';
  const settings = { model, workers, threads, batch, withoutTimestamps };
  return {
    name: `faster-whisper int8, ${shape}${batched}${flags}`,
    short: `faster-whisper${batch > 0 ? `, batch ${batch}` : ''}${flags}`,
    peer: 'faster-whisper',
    run: () => runFasterWhisper(python, settings, audio.files),
  };
}

const engineShare = { speeds: [33, 15], overhead: 1 };

export const whisperEngine = {
  name: 'whisper-engine',
  title: 'Whisper tiny.en, engine alone, clips of 3–12 s, models loaded beforehand',
  share: 1,
  settings: (seconds, { files }) => {
    const audio = audioFor(seconds, { ...engineShare, least: 60, most: 1_200 });
    return { clips: files ?? Math.round(audio / CLIP_SECONDS), batch: 8 };
  },
  estimate: ({ clips }, time) => timeFor(clips * CLIP_SECONDS, engineShare, time),
  async measure({ clips, batch }, { cache, limits, peers }) {
    const prepared = preparePeers(cache);
    const audio = prepareClips(cache, clips);
    const peer = await FasterWhisper.start(prepared.python, {
      ...{ model: prepared.fasterWhisper, workers: CORES, threads: 1, withoutTimestamps: true },
    });
    const engine = await OurEngine.start({
      ...{ weights: prepared.weights, slots: CORES, threads: 1, batch },
    });
    const contestants = [
      {
        name: `engine, ${CORES} slots × 1 thread, batch ${batch}`,
        short: 'Wavepool',
        ours: true,
        run: () => engine.run(audio.files),
        pids: () => engine.pids(),
      },
      {
        name: `faster-whisper int8, ${CORES} workers × 1 thread, loaded`,
        short: 'faster-whisper',
        peer: 'faster-whisper',
        run: () => peer.run(audio.files),
        pids: () => peer.pids(),
      },
    ];
    try {
      return await contest(audio, contestants, { limits, peers });
    } finally {
      await peer.stop();
      await engine.stop();
    }
  },
  document: documentContest({ title: 'Clips', chart: 'whisper-engine' }),
};

const clipsShare = { speeds: [33, 10, 23, 15], overhead: 9 };

export const whisperClips = {
  name: 'whisper-clips',
  title: 'Whisper tiny.en, `wavepool run`, clips of 3–12 s',
  share: 4,
  settings: (seconds, { files, oursArgs }) => {
    const audio = audioFor(seconds, { ...clipsShare, least: 45, most: 2_000 });
    return { clips: files ?? Math.round(audio / CLIP_SECONDS), args: oursArgs ?? [] };
  },
  estimate: ({ clips }, time) => timeFor(clips * CLIP_SECONDS, clipsShare, time),
  async measure({ clips, args }, { cache, limits, peers }) {
    const prepared = preparePeers(cache);
    const audio = prepareClips(cache, clips);
    const options = [...NO_TIMES, ...SHORT_CONTEXT];
    const contestants = [
      ours(audio, args),
      whisperCli(prepared, audio, { processes: CORES, options: NO_TIMES }),
      whisperCli(prepared, audio, { processes: CORES, options }),
      fasterWhisper(prepared, audio, { workers: CORES }),
    ];
    return contest(audio, contestants, { limits, peers });
  },
  document: documentContest({ title: 'Clips', chart: 'whisper-clips' }),
};

const hourShare = { speeds: [40, 40, 47, 46, 27], overhead: 11 };

export const whisperHour = {
  name: 'whisper-hour',
  title: 'Whisper tiny.en, `wavepool run`, one long file',
  share: 4,
  settings: (seconds, { audioSeconds, oursArgs }) => {
    const fitting = audioFor(seconds, { ...hourShare, least: 60, most: 3_600 });
    return { seconds: audioSeconds ?? fitting, args: oursArgs ?? LONG_FILE_ARGS };
  },
  estimate: ({ seconds }, time) => timeFor(seconds, hourShare, time),
  async measure({ seconds, args }, { cache, limits, peers }) {
    const prepared = preparePeers(cache);
    const audio = prepareLong(cache, seconds);
    const contestants = [
      ours(audio, args),
      ...PIPELINES.map((pipeline) =>
        fasterWhisper(prepared, audio, { threads: CORES, ...pipeline }),
      ),
      whisperCli(prepared, audio, { threads: CORES }),
    ];
    return contest(audio, contestants, { limits, peers });
  },
  document: documentContest({ title: 'One recording', chart: 'whisper-hour' }),
};
