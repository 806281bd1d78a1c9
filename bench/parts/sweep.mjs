/** The engine by slots × threads × batch size: where its speed comes from, and what a slot takes of memory. */
import { prepareClips } from '../audio.mjs';
import { OurEngine, pullModel } from '../ours.mjs';
import { interleave } from '../rounds.mjs';
import { audioSpeed, figure, megabytes, number, table } from '../tables.mjs';
import { audioFor, CORES, timeFor } from './contest.mjs';

const BATCHES = [1, 4, 8, 16];
const CLIP_SECONDS = 7.5;
/** With less time than this, one model has to do. */
const SHORT_SECONDS = 60;
const MODELS = [
  { model: 'moonshine-tiny', speed: 110 },
  { model: 'whisper-tiny.en', speed: 25 },
];

/** Every division of the cores: threads of all slots together are at most as many, in powers of two. */
function divisions(cores) {
  const counts = [];
  for (let count = 1; count <= cores; count *= 2) counts.push(count);
  if (!counts.includes(cores)) counts.push(cores);
  return counts
    .flatMap((slots) => counts.map((threads) => ({ slots, threads })))
    .filter(({ slots, threads }) => slots * threads <= cores);
}

const SHAPES = divisions(CORES).flatMap((shape) => BATCHES.map((batch) => ({ ...shape, batch })));

function planOf({ speed }) {
  const speeds = SHAPES.map(({ slots, threads }) => (speed * slots * threads) / CORES);
  return { speeds, overhead: SHAPES.length * 0.6 };
}

async function sweep(weights, audio, limits) {
  const contestants = SHAPES.map((shape) => {
    const { slots, threads, batch } = shape;
    return {
      ...{ name: `${slots} × ${threads}, batch ${batch}`, shape },
      run: async () => {
        const engine = await OurEngine.start({ weights, ...shape });
        try {
          return await engine.run(audio.files);
        } finally {
          await engine.stop();
        }
      },
    };
  });
  const results = await interleave(contestants, limits);
  return results.map(({ found: _, ...facts }) => ({ ...facts, audioSeconds: audio.seconds }));
}

export const sweeping = {
  name: 'sweep',
  title: 'Engine by slots × threads × batch size',
  share: 2,
  settings: (seconds, { files }) => {
    const models = seconds < SHORT_SECONDS ? MODELS.slice(0, 1) : MODELS;
    const share = seconds / models.length;
    return {
      models: models.map(({ model, ...rest }) => {
        const audio = audioFor(share, { ...planOf(rest), least: 60, most: 600 });
        return { model, clips: files ?? Math.round(audio / CLIP_SECONDS) };
      }),
    };
  },
  estimate: ({ models }, time) =>
    models.reduce((sum, { model, clips }) => {
      const known = MODELS.find((each) => each.model === model);
      return sum + timeFor(clips * CLIP_SECONDS, planOf(known), time / models.length);
    }, 0),
  async measure({ models }, { cache, limits }) {
    const swept = [];
    for (const [index, { model, clips }] of models.entries()) {
      const now = performance.now();
      const endAt = now + (limits.endAt - now) / (models.length - index);
      const audio = prepareClips(cache, clips);
      const rounds = { atLeast: 1, atMost: limits.rounds ?? 3, endAt };
      const shapes = await sweep(pullModel(model), audio, rounds);
      swept.push({ model, audioSeconds: audio.seconds, shapes });
    }
    return { models: swept };
  },
  document({ data: { models } }) {
    const head = ['Slots × threads', ...BATCHES.map((batch) => `batch ${batch}`)];
    const cell = (each) => `${number(audioSpeed(each))} (${megabytes(figure(each, 'peakBytes'))})`;
    const tables = models.flatMap(({ model, audioSeconds, shapes }) => {
      const rows = divisions(Math.max(...shapes.map(({ shape }) => shape.slots))).map(
        (division) => {
          const { slots, threads } = division;
          const own = shapes.filter(
            ({ shape }) => shape.slots === slots && shape.threads === threads,
          );
          return [`${slots} × ${threads}`, ...own.map(cell)];
        },
      );
      const what = `${model}, clips of 3–12 s, ${Math.round(audioSeconds)} s together`;
      const figures = 'audio seconds per second (memory of the process, MB)';
      return [`${what}: ${figures}.`, '', ...table(head, rows), ''];
    });
    const groups = models.map(({ model, shapes }) => ({
      label: model,
      bars: shapes.map((each) => {
        const value = audioSpeed(each);
        const best = Math.max(...shapes.map(audioSpeed));
        return { label: each.name, value, shown: `${number(value)} s/s`, ours: value === best };
      }),
    }));
    const subtitle = 'Slots × threads, batch; seconds of audio per second';
    return { lines: tables, charts: { sweep: { title: this.title, subtitle, groups } } };
  },
};
