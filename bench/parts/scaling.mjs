/** What the whole command costs by the length of a file and by the number of worker processes: CPU time and memory. */
import { prepareClips, prepareLong } from '../audio.mjs';
import { pullModel, runCommand } from '../ours.mjs';
import { interleave } from '../rounds.mjs';
import { audioSpeed, cpuPerHour, figure, megabytes, number, table } from '../tables.mjs';
import { audioFor, timeFor } from './contest.mjs';

const MODEL = 'moonshine-tiny';
/** Of the longest file. */
const LENGTHS = [1 / 60, 1 / 6, 1];
const CLIP_SECONDS = 7.5;
const ONE_WORKER = ['--workers', '1'];
const planned = { speeds: [60, 360, 3_600, 60, 120], overhead: 14 };

export const scaling = {
  name: 'scaling',
  title: '`wavepool run` by length of file and by worker processes',
  share: 1.5,
  settings: (seconds, { audioSeconds }) => {
    const longest = audioSeconds ?? audioFor(seconds, { ...planned, least: 120, most: 3_600 });
    return {
      lengths: LENGTHS.map((part) => Math.max(5, Math.round(longest * part))),
      clips: Math.round(longest / CLIP_SECONDS),
      workers: [1, 2],
    };
  },
  estimate: ({ lengths }, time) => timeFor(lengths.at(-1), planned, time),
  async measure({ lengths, clips, workers }, { cache, limits }) {
    pullModel(MODEL);
    const rounds = { ...limits, atMost: limits.rounds ?? 3 };
    const files = lengths.map((seconds) => {
      const audio = prepareLong(cache, seconds);
      const name = `one file of ${Math.round(audio.seconds)} s`;
      return { name, audioSeconds: audio.seconds, run: () => runCommand(audio, ONE_WORKER) };
    });
    const audio = prepareClips(cache, clips);
    const processes = workers.map((count) => ({
      ...{ name: String(count), audioSeconds: audio.seconds },
      run: () => runCommand(audio, ['--workers', String(count)]),
    }));
    const strip = (results) => results.map(({ found: _, ...facts }) => facts);
    const half = performance.now() + (limits.endAt - performance.now()) / 2;
    return {
      byLength: strip(await interleave(files, { ...rounds, endAt: half })),
      byWorkers: strip(await interleave(processes, rounds)),
    };
  },
  document({ data: { byLength, byWorkers } }) {
    const cells = (each) => [
      number(audioSpeed(each)),
      number(cpuPerHour(each)),
      `${megabytes(figure(each, 'peakBytes'))} (${megabytes(figure(each, 'largestProcessBytes'))})`,
    ];
    const figures = [
      'Audio s per s',
      'CPU s per audio hour',
      'Memory, all processes (largest one), MB',
    ];
    const lengths = byLength.map((each) => [each.name, ...cells(each)]);
    const workers = byWorkers.map((each) => [each.name, ...cells(each)]);
    return {
      lines: [
        'One worker process. Its start and end are included, and weigh most on short files:',
        '',
        ...table(['Input', ...figures], lengths),
        '',
        ...table(['Worker processes, clips', ...figures], workers),
      ],
      charts: {},
    };
  },
};
