/** Parts in which several programs transcribe the same audio: how they are planned, run and shown. */
import os from 'node:os';
import { wordErrorRate } from '../../dist/test/support/word-error-rate.js';
import { interleave } from '../rounds.mjs';
import { contestChart, contestTable } from '../tables.mjs';

export const CORES = os.availableParallelism();
/** What the sizes are chosen for; measuring goes on until the ratios settle or the time is up, and two are the fewest. */
const PLANNED_ROUNDS = 3;
const FEWEST_ROUNDS = 2;

/**
 * How much audio fits into the time of a part.
 * @param speeds expected audio seconds per second of each contestant on two cores
 * @param overhead seconds that a round costs whatever the audio
 */
export function audioFor(seconds, { speeds, overhead, least, most }) {
  const perAudioSecond = cost(speeds);
  const fitting = (seconds / PLANNED_ROUNDS - overhead) / perAudioSecond;
  return Math.round(Math.min(most, Math.max(least, fitting)));
}

/** As many rounds as are planned, where they fit into `seconds`. */
export function timeFor(audioSeconds, { speeds, overhead }, seconds) {
  const round = overhead + audioSeconds * cost(speeds);
  const rounds = PLANNED_ROUNDS * round <= 1.05 * seconds ? PLANNED_ROUNDS : FEWEST_ROUNDS;
  return rounds * round;
}

function cost(speeds) {
  return speeds.reduce((sum, speed) => sum + 2 / (speed * CORES), 0);
}

function judge(texts, references) {
  const isSpeech = references.some((reference) => reference !== '');
  if (isSpeech) {
    return { wordErrorRate: wordErrorRate(references.map((each, i) => [each, texts[i]])) };
  }
  const words = texts.flatMap((text) => text.split(/\s+/).filter(Boolean));
  return { wordsHeard: words.length };
}

/**
 * Runs the contestants over the audio, in turn.
 * @param contestants the first one is ours; those with `peer` can be left out by `--peer`
 */
export async function contest(audio, contestants, { limits, peers }) {
  const chosen = contestants.filter(
    ({ peer }) => peer === undefined || peers === undefined || peers.includes(peer),
  );
  const results = await interleave(chosen, limits);
  return {
    files: audio.files.length,
    audioSeconds: audio.seconds,
    contestants: results.map(({ found, ...facts }) => {
      const { audioSeconds = audio.seconds } = facts;
      return { ...facts, audioSeconds, ...judge(found.texts, audio.references) };
    }),
  };
}

/** What such a part says in docs/performance.md, with its chart. */
export function documentContest({ title, chart }) {
  return ({ data }) => ({
    lines: [
      `${title}: ${data.files === 1 ? 'one file' : `${data.files} files`}, ${Math.round(data.audioSeconds)} s of audio.`,
      '',
      ...contestTable(data.contestants),
    ],
    charts: { [chart]: contestChart(title, data.contestants) },
  });
}
