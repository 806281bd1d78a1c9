/** Figures as readers want them, and Markdown tables of them. */
import { median, ratios } from './rounds.mjs';

export function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)];
}

/** Three digits are as fine as anything here is measured. */
export function number(value) {
  if (value === undefined || Number.isNaN(value)) return '–';
  if (value >= 100) return Math.round(value).toLocaleString('en-US');
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export const percent = (share) => `${(100 * share).toFixed(2)} %`;

export const megabytes = (bytes) => String(Math.round(bytes / 2 ** 20));

/** `2.71 × (2.68–2.75)` */
export function ratioRange(all) {
  const [least, most] = [Math.min(...all), Math.max(...all)].map((ratio) => ratio.toFixed(2));
  return `**${median(all).toFixed(2)} ×** (${least}–${most})`;
}

/** Median over the rounds of one figure. */
export function figure({ rounds }, name) {
  return median(rounds.map((round) => round[name]));
}

export function audioSpeed(contestant) {
  return contestant.audioSeconds / figure(contestant, 'seconds');
}

/** CPU seconds of all processes for an hour of audio. */
export function cpuPerHour(contestant) {
  return (3600 * figure(contestant, 'cpuSeconds')) / contestant.audioSeconds;
}

function accuracy({ wordErrorRate, wordsHeard }) {
  if (wordErrorRate !== undefined) return percent(wordErrorRate);
  return wordsHeard === undefined ? '–' : `${wordsHeard} words heard`;
}

/** One row for each contestant; the first one is what the others are compared with. */
export function contestTable(contestants) {
  const [ours] = contestants;
  const head = [
    'Contestant',
    'Speed of the first line ÷ this speed',
    'Audio s per s',
    'CPU s per audio hour',
    'Memory, all processes (largest one), MB',
    'First text, s',
    'WER',
    'Rounds',
  ];
  const rows = contestants.map((each) => [
    each.name,
    each === ours ? '' : ratioRange(ratios(ours, each)),
    number(audioSpeed(each)),
    number(cpuPerHour(each)),
    `${megabytes(figure(each, 'peakBytes'))} (${megabytes(figure(each, 'largestProcessBytes'))})`,
    number(figure(each, 'firstSeconds')),
    accuracy(each),
    String(each.rounds.length),
  ]);
  return table(head, rows);
}

export function contestChart(title, contestants) {
  const bars = contestants.map((each) => {
    const value = audioSpeed(each);
    return { label: each.short, value, shown: `${number(value)} s/s`, ours: each.ours };
  });
  return { title, subtitle: 'Seconds of audio per second; longer is faster', groups: [{ bars }] };
}
