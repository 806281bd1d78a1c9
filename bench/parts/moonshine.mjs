/**
 * Moonshine tiny beside sherpa-onnx, the same int8 weights: the engine alone with its model loaded, and the whole command on
 * three workloads.
 */
import { prepareClips, prepareLong, prepareMixed } from '../audio.mjs';
import { OurEngine, pullModel, runCommand } from '../ours.mjs';
import { prepareSherpaModel, runSherpa, Sherpa } from '../sherpa.mjs';
import { audioFor, CORES, contest, documentContest, timeFor } from './contest.mjs';
import { prepareSilero } from './silero.mjs';

const MODEL = 'moonshine-tiny';
const CLIP_SECONDS = 7.5;
/** Expected, on two cores: see `audioFor`. */
const OURS = 130;
const SHERPA = 58;
const PROCESSES = `${CORES} processes × 1 thread`;

export function ourCommand(audio, args) {
  const shown = ['wavepool run', ...args].join(' ');
  return {
    name: `\`${shown}\`, everything included`,
    short: 'wavepool run',
    ours: true,
    run: () => runCommand(audio, args),
  };
}

/** Of one long file only one worker process can work; so it gets a slot for each core. */
export const LONG_FILE_ARGS = ['--workers', '1', '--unvalidated-slots', String(CORES)];

const engineShare = { speeds: [170, SHERPA, 75, 33], overhead: 1 };

export const moonshineEngine = {
  name: 'moonshine-engine',
  title: 'Moonshine tiny, engine alone, clips of 3–12 s, models loaded beforehand',
  share: 2,
  settings: (seconds, { files }) => {
    const audio = audioFor(seconds, { ...engineShare, least: 60, most: 1_500 });
    return { clips: files ?? Math.round(audio / CLIP_SECONDS) };
  },
  estimate: ({ clips }, time) => timeFor(clips * CLIP_SECONDS, engineShare, time),
  async measure({ clips }, { cache, limits, peers }) {
    const model = await prepareSherpaModel(cache);
    const weights = pullModel(MODEL);
    const audio = prepareClips(cache, clips);
    const started = [];
    const start = async (starting, facts) => {
      const program = await starting;
      started.push(program);
      const run = () => program.run(audio.files);
      return { ...facts, run, pids: () => program.pids() };
    };
    try {
      const all = await start(OurEngine.start({ weights, slots: CORES, threads: 1, batch: 8 }), {
        name: `engine, ${CORES} slots × 1 thread, native batch 8`,
        short: `Wavepool, ${CORES} slots, batch 8`,
        ours: true,
      });
      const one = await start(OurEngine.start({ weights, slots: 1, threads: 1, batch: 1 }), {
        name: 'engine, 1 slot × 1 thread, one clip at a time',
        short: 'Wavepool, 1 thread, batch 1',
        ours: true,
      });
      const theirs = (processes) => Sherpa.start({ model, processes, threads: 1 });
      const many = await start(theirs(CORES), {
        name: `sherpa-onnx, ${PROCESSES}`,
        short: `sherpa-onnx, ${PROCESSES}`,
        peer: 'sherpa-onnx',
      });
      const single = await start(theirs(1), {
        name: 'sherpa-onnx, 1 process × 1 thread',
        short: 'sherpa-onnx, 1 thread',
        peer: 'sherpa-onnx',
      });
      const rest = { limits, peers };
      const cores = await contest(audio, [all, many], rest);
      const thread = await contest(audio, [one, single], rest);
      return { ...cores, thread: thread.contestants };
    } finally {
      for (const program of started) await program.stop();
    }
  },
  document(result) {
    const { data } = result;
    const whole = documentContest({ title: 'All cores', chart: 'moonshine-engine' })(result);
    const thread = documentContest({ title: 'One thread', chart: 'moonshine-thread' })({
      data: { ...data, contestants: data.thread },
    });
    const groups = [whole, thread].flatMap(({ charts }) => Object.values(charts)[0].groups);
    const [chart] = Object.values(whole.charts);
    return {
      lines: [...whole.lines, '', ...thread.lines],
      charts: { 'moonshine-engine': { ...chart, title: this.title, groups } },
    };
  },
};

/** The whole command beside sherpa-onnx, loading included on both sides. */
export function commandPart({ name, title, share, sizes, prepare, peerSettings, args = [] }) {
  const { speeds, overhead, unit, least, most, key } = sizes;
  const planned = { speeds, overhead };
  return {
    name,
    title,
    share,
    settings: (seconds, { files, audioSeconds, oursArgs }) => {
      const fitting = audioFor(seconds, { ...planned, least: least * unit, most: most * unit });
      const given = key === 'seconds' ? audioSeconds : files;
      return { [key]: given ?? Math.round(fitting / unit), args: oursArgs ?? args };
    },
    estimate: (settings, time) => timeFor(settings[key] * unit, planned, time),
    async measure(settings, { cache, limits, peers }) {
      const model = await prepareSherpaModel(cache);
      pullModel(MODEL);
      const audio = prepare(cache, settings[key]);
      const { detects, ...shape } = peerSettings;
      const detector = detects ? prepareSilero(cache) : undefined;
      const what = detects ? ', its own detector' : '';
      const sherpa = {
        name: `sherpa-onnx, ${shape.processes} × ${shape.threads} thread(s)${what}, loading included`,
        short: `sherpa-onnx, ${shape.processes} × ${shape.threads}`,
        peer: 'sherpa-onnx',
        run: () => runSherpa({ model, detector, ...shape }, audio.files),
      };
      return contest(audio, [ourCommand(audio, settings.args), sherpa], { limits, peers });
    },
    document: documentContest({ title, chart: name }),
  };
}

/** sherpa-onnx as its documentation has it use several cores. */
export const eachCore = { processes: CORES, threads: 1 };

export const moonshineClips = commandPart({
  name: 'moonshine-clips',
  title: 'Moonshine tiny, `wavepool run`, clips of 3–12 s',
  // By default a thousand clips.
  share: 4.4,
  sizes: {
    ...{ key: 'clips', unit: CLIP_SECONDS, least: 12, most: 1_000 },
    ...{ speeds: [OURS, SHERPA], overhead: 4 },
  },
  prepare: prepareClips,
  peerSettings: { ...eachCore, detects: false },
});

export const moonshineMixed = commandPart({
  name: 'moonshine-mixed',
  title: 'Moonshine tiny, `wavepool run`, files of 1–60 s',
  share: 1.5,
  sizes: {
    ...{ key: 'seconds', unit: 1, least: 120, most: 7_200 },
    ...{ speeds: [OURS, SHERPA], overhead: 4 },
  },
  prepare: prepareMixed,
  peerSettings: { ...eachCore, detects: true },
});

export const moonshineHour = commandPart({
  name: 'moonshine-hour',
  title: 'Moonshine tiny, `wavepool run`, one long file',
  // By default an hour.
  share: 2.8,
  sizes: {
    ...{ key: 'seconds', unit: 1, least: 120, most: 3_600 },
    ...{ speeds: [OURS, 40], overhead: 4 },
  },
  prepare: prepareLong,
  peerSettings: { processes: 1, threads: CORES, detects: true },
  args: LONG_FILE_ARGS,
});
