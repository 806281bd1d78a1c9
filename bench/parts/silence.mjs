/**
 * What files cost in which nobody speaks: beside sherpa-onnx, and beside speech. A run of one tiny file tells what starting
 * costs whatever there is to do.
 */
import { prepareMixed, prepareSilence, prepareZeros } from '../audio.mjs';
import { runCommand } from '../ours.mjs';
import { interleave, median } from '../rounds.mjs';
import { cpuPerHour, number, percent, table } from '../tables.mjs';
import { commandPart, eachCore } from './moonshine.mjs';

const SPEECH_SECONDS = 300;

const besidePeer = commandPart({
  name: 'silence',
  title: 'Moonshine tiny, `wavepool run`, silent files of 60 s',
  share: 1,
  sizes: {
    ...{ key: 'files', unit: 60, least: 4, most: 200 },
    // The noise, the peer, the noise again and the zeros; the speech and the start are in the overhead.
    ...{ speeds: [2_500, 900, 2_500, 2_500], overhead: 9 },
  },
  prepare: prepareSilence,
  peerSettings: { ...eachCore, detects: true },
});

/** CPU seconds for an hour of audio, without what the start of the same round cost. */
function cpuPerHourOfWork({ rounds, audioSeconds }, start) {
  const work = rounds.map(({ cpuSeconds }, i) => cpuSeconds - start.rounds[i].cpuSeconds);
  return (3600 * median(work)) / audioSeconds;
}

function documentCosts([start, speech, ...silent]) {
  const ofSpeech = cpuPerHourOfWork(speech, start);
  const head = [
    '`wavepool run`',
    'Audio, s',
    'CPU s per audio hour',
    'Without the start',
    'Without the start, share of speech',
  ];
  const rows = [speech, ...silent].map((each) => {
    const ofWork = cpuPerHourOfWork(each, start);
    return [
      each.name,
      number(each.audioSeconds),
      number(cpuPerHour(each)),
      number(ofWork),
      percent(ofWork / ofSpeech),
    ];
  });
  const seconds = number(median(start.rounds.map(({ cpuSeconds }) => cpuSeconds)));
  return [
    `The start costs ${seconds} CPU seconds, however much work follows. (Measured as a run of one file of a second.)`,
    '',
    ...table(head, rows),
  ];
}

export const silence = {
  ...besidePeer,
  async measure(settings, context) {
    const { files, args } = settings;
    const { cache, limits } = context;
    const now = performance.now();
    const half = { ...limits, endAt: now + (limits.endAt - now) / 2 };
    const data = await besidePeer.measure(settings, { ...context, limits: half });
    const ours = (name, audio) => {
      return { name, audioSeconds: audio.seconds, run: () => runCommand(audio, args) };
    };
    const costs = await interleave(
      [
        ours('one file of a second', prepareZeros(cache, 1, 1)),
        ours('speech, files of 1–60 s', prepareMixed(cache, SPEECH_SECONDS)),
        ours('faint noise, files of 60 s', prepareSilence(cache, files)),
        ours('zeros, files of 60 s', prepareZeros(cache, files)),
      ],
      limits,
    );
    return { ...data, costs: costs.map(({ found: _found, ...cost }) => cost) };
  },
  document(result) {
    const { lines, charts } = besidePeer.document(result);
    const { costs } = result.data;
    // Results from before they were measured have none.
    return { lines: costs === undefined ? lines : [...lines, '', ...documentCosts(costs)], charts };
  },
};
