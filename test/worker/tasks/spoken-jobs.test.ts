/** Jobs that ask for a language, for words, or for channels by themselves, over the scripted engine. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type PartialSegment,
  parseJobData,
  type TranscribeOptions,
} from '../../../src/core/job/job.ts';
import { asTranscript } from '../../../src/core/results/job-result.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { SAMPLE_RATE, type TaskItem, type TaskOptions } from '../../../src/runtime/engine.ts';
import { Runtime } from '../../../src/runtime/runtime.ts';
import { LocalResultStore } from '../../../src/storage/local-result-store.ts';
import { DecodeAllowance } from '../../../src/worker/audio/decode-allowance.ts';
import { JobProcessor } from '../../../src/worker/job/job-processor.ts';
import { temporaryFolder } from '../../support/redis.ts';
import { type EngineScript, ScriptedAudio, scriptedEngine } from '../scripted-engine.ts';

const CONFIGURATION = {
  mode: 'offline',
  slots: 1,
  threads: 1,
  maxBatch: 4,
  maxAudioSeconds: 1_000,
  maxWaitMs: 0,
  busyTimeoutMs: 0,
} as const;

const ALL_OPTIONS = ['language', 'translate', 'prompt', 'words'];

interface JobSettings {
  readonly options?: Partial<TranscribeOptions>;
  readonly signal?: AbortSignal;
  readonly minimumSeconds?: number;
}

/** Runs one job; tells its transcript, what its recognizer was asked, and what was told meanwhile. */
async function transcribe(script: Partial<EngineScript>, settings: JobSettings = {}) {
  await using folder = await temporaryFolder();
  const asked: { second: number; options: TaskOptions }[] = [];
  const opened: ScriptedAudio[] = [];
  const engine = scriptedEngine({
    audio: '.sss..',
    ...script,
    onRecognize: async (item) => {
      asked.push({ second: item.startSample / SAMPLE_RATE, options: item.options });
      await script.onRecognize?.(item);
    },
  });
  const openAudio = async (source: Parameters<typeof engine.openAudio>[0]) => {
    const audio = await engine.openAudio(source);
    if (audio instanceof ScriptedAudio) opened.push(audio);
    return audio;
  };
  await using runtime = new Runtime({ ...engine, openAudio }, systemClock);
  const detector = runtime.register('vad', { ...CONFIGURATION, path: 'vad' });
  const recognizer = runtime.register('asr', { ...CONFIGURATION, path: 'asr' });
  const results = await LocalResultStore.open(path.join(folder.path, 'results'));
  const recording = path.join(folder.path, 'call.wav');
  await writeFile(recording, 'audio');
  const { minimumSeconds = 60, signal = new AbortController().signal } = settings;
  const allowance = new DecodeAllowance({ totalSeconds: minimumSeconds, minimumSeconds });
  const places = { uploadsDir: folder.path };
  const processor = new JobProcessor({
    ...{ runtime, detector, results, allowance, places, maxAudioSeconds: 0 },
    ffmpeg: 'ffmpeg',
  });
  const input = { kind: 'path', path: recording } as const;
  const options = {
    vad: { padMs: 0, minSilenceMs: 1_000, targetSegmentMs: 0 },
    ...settings.options,
  };
  const partials: PartialSegment[] = [];
  try {
    const outcome = await processor.process({
      jobId: 'job',
      data: parseJobData({ input, model: 'asr', options, submittedAt: Date.now() }),
      priority: 0,
      signal,
      onProgress: () => undefined,
      onSegment: (segment) => partials.push(segment),
      assertOwned: () => Promise.resolve(),
    });
    const transcript = asTranscript(await results.read(outcome.resultKey));
    return { transcript, asked, partials, opened };
  } finally {
    for (const entry of [detector, recognizer])
      expect(entry.batcher.stats()).toMatchObject({ queuedItems: 0, runningItems: 0 });
    expect(opened.every(({ closed }) => closed)).toBe(true);
    expect(allowance.perJobSeconds).toBe(minimumSeconds);
  }
}

describe('the language of a job', () => {
  const speaking = { languages: ['en', 'de'], optionNames: ALL_OPTIONS };
  const german = { ...speaking, reply: () => ({ language: 'de' }) };
  const languages = (asked: readonly { second: number; options: TaskOptions }[]) =>
    asked.toSorted((a, b) => a.second - b.second).map(({ options: { language } }) => language);

  test('is found out by the first stretch of at least four seconds, and told to all that follow', async () => {
    const { asked, transcript } = await transcribe({ ...german, audio: 's..ssss..ss..sssss' });
    expect(asked[0]).toEqual({ second: 3, options: {} });
    expect(languages(asked)).toEqual(['de', undefined, 'de', 'de']);
    expect(transcript.language).toBe('de');
  });

  test('is found out by the longest of three short ones', async () => {
    const { asked } = await transcribe({ ...german, audio: 's..sss..s..ss..sssss' });
    expect(asked[0]?.second).toBe(3);
    expect(languages(asked)).toEqual(['de', undefined, 'de', 'de', 'de']);
  });

  test('is found out by the longest there is in a short input', async () => {
    const { asked } = await transcribe({ ...german, audio: 's..ss.' });
    expect(languages(asked)).toEqual(['de', undefined]);
  });

  test('is not found out where no words are', async () => {
    const { asked } = await transcribe({
      ...german,
      audio: 'ssss..ssss..ssss',
      reply: ({ startSample }) => (startSample === 0 ? { text: '' } : { language: 'de' }),
    });
    // The first is asked twice: for words, then for the likeliest.
    expect(languages(asked)).toEqual([undefined, undefined, undefined, 'de']);
  });

  test('is found out while a short stretch is followed by more silence than the job may hold', async () => {
    const audio = `s${'.'.repeat(300)}sssss`;
    const { asked, opened } = await transcribe({ ...german, audio });
    expect(languages(asked)).toEqual([undefined, 'de']);
    expect(opened[0]?.mostHeldSamples).toBeLessThanOrEqual(60 * SAMPLE_RATE);
  });

  test('is what was asked for, by the name that the model has for it', async () => {
    const options = { language: 'de-AT' };
    const { asked, transcript } = await transcribe({ ...speaking, audio: 'ss..ssss' }, { options });
    expect(languages(asked)).toEqual(['de', 'de']);
    expect(transcript.language).toBe('de');
  });

  test('is not told to a model that knows only one', async () => {
    const english = { languages: ['en'], audio: 'ss..ssss' };
    const { asked, transcript } = await transcribe(english, { options: { language: 'en-US' } });
    expect(asked.map(({ options }) => options)).toEqual([{}, {}]);
    expect(transcript.language).toBe('en');
    expect((await transcribe(english)).transcript.language).toBe('en');
  });

  test('a failure of the stretch that decides ends the job, and nobody waits for it', async () => {
    const failing = transcribe({
      ...german,
      audio: 'ssss..ssss..ssss',
      onRecognize: () => {
        throw new Error('as told');
      },
    });
    await expect(failing).rejects.toThrow('as told');
  });

  test('an input that breaks off while the language is open ends the job', async () => {
    const broken = transcribe({ ...german, audio: `s${'.'.repeat(100)}`, brokenAtSecond: 45 });
    await expect(broken).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
  });
});

test.each([
  [{ language: 'de' }, 'recognizes en, not de'],
  [{ translate: true }, 'does not translate'],
  [{ prompt: 'Ada' }, 'takes no prompt'],
  [{ words: true }, 'no times of words'],
])(
  'what the model does not have (%j) is refused before anything is decoded',
  async (options, why) => {
    let recognized = 0;
    const script = {
      languages: ['en'],
      onRecognize: () => {
        recognized += 1;
      },
      brokenAtSecond: 0,
    };
    const refused = transcribe(script, { options });
    await expect(refused).rejects.toMatchObject({ code: 'OPTION_UNSUPPORTED' });
    await expect(refused).rejects.toThrow(why);
    expect(recognized).toBe(0);
  },
);

test('pieces and words of the recognizer are put into the time of the input, within their segment and in order', async () => {
  const word = (text: string, start: number, end: number) => ({
    text,
    start,
    end,
    probability: 0.75,
  });
  const piece = {
    averageLogProbability: Math.log(0.5),
    noSpeechProbability: 0.1,
    temperature: 0.2,
  };
  const { transcript, asked } = await transcribe(
    {
      audio: '.ssssss..',
      optionNames: ALL_OPTIONS,
      reply: () => ({
        text: 'One two. Three!',
        truncated: true,
        pieces: [
          {
            ...piece,
            text: 'One two.',
            start: 0,
            end: 2,
            words: [word('One', 0, 0.5), word('two.', 0.4, 2.5)],
          },
          // Begins before the one before it ends, ends after the segment.
          { ...piece, text: 'Three!', start: 1, end: 99, words: [word('Three!', -1, 99)] },
        ],
      }),
    },
    { options: { words: true, prompt: 'count' } },
  );
  expect(asked[0]?.options).toEqual({ words: true, prompt: 'count' });
  const told = { confidence: 0.5, noSpeechProbability: 0.1, temperature: 0.2 };
  expect(transcript.text).toBe('One two. Three!');
  expect(transcript.segments).toEqual([
    {
      ...{ start: 1, end: 3.5, text: 'One two.', ...told },
      words: [
        { start: 1, end: 1.5, text: 'One', confidence: 0.75 },
        { start: 1.5, end: 3.5, text: 'two.', confidence: 0.75 },
      ],
    },
    {
      ...{ start: 3.5, end: 7, text: 'Three!', ...told, truncated: true },
      words: [{ start: 3.5, end: 7, text: 'Three!', confidence: 0.75 }],
    },
  ]);
});

describe('channels by themselves', () => {
  const split = { channels: 'split' } as const;
  const named = { ...split, speakers: ['agent', 'caller'] };
  const CALL = ['sss......sss.......', '....sss......ss....'];
  const turns = ({
    segments,
  }: {
    segments: readonly { speaker?: string | undefined; start: number }[];
  }) => segments.map(({ speaker, start }) => `${speaker} ${start}`);

  test('are merged by time, with who speaks', async () => {
    const { transcript, partials } = await transcribe({ channels: CALL }, { options: named });
    const expected = ['agent 0', 'caller 4', 'agent 9', 'caller 13'];
    expect(turns(transcript)).toEqual(expected);
    expect(transcript.text).toBe('0-3 4-7 9-12 13-15');
    expect(transcript.audio).toMatchObject({ channels: 2, durationSeconds: 19 });
    expect(turns({ segments: partials.toSorted((a, b) => a.index - b.index) })).toEqual(expected);
  });

  test('have numbers where they have no names', async () => {
    const options = { ...split, speakers: ['agent'] };
    const { transcript } = await transcribe({ channels: CALL }, { options });
    expect(turns(transcript)).toContain('channel 2 4');
    expect(turns(transcript)).toContain('agent 0');
  });

  test('come in the order of their times also when one speaks long and the other in between', async () => {
    const channels = [`${'s'.repeat(9)}..${'s'.repeat(60)}`, `${'..s...'.repeat(12)}`].map((each) =>
      each.padEnd(75, '.'),
    );
    const { transcript, partials } = await transcribe({ channels }, { options: split });
    const starts = transcript.segments.map(({ start }) => start);
    expect(starts).toEqual(starts.toSorted((a, b) => a - b));
    expect(partials.toSorted((a, b) => a.index - b.index).map(({ start }) => start)).toEqual(
      starts,
    );
    expect(transcript.segments.filter(({ speaker }) => speaker === 'channel 2')).toHaveLength(12);
  });

  test('that are silent say nothing', async () => {
    const channels = ['sss....', '.......'];
    const { transcript } = await transcribe({ channels }, { options: named });
    expect(turns(transcript)).toEqual(['agent 0']);
    const { transcript: silent } = await transcribe(
      { channels: ['...', '...'] },
      { options: named },
    );
    expect(silent).toMatchObject({ noSpeech: true, segments: [] });
  });

  test('are one voice without a name where there is only one, with a warning', async () => {
    const { transcript } = await transcribe({ channels: ['.sss..'] }, { options: named });
    expect(turns(transcript)).toEqual(['undefined 1']);
    expect(transcript.warnings).toMatchObject([{ code: 'ONE_CHANNEL' }]);
  });

  test('are refused when there are more than eight', async () => {
    const channels = Array<string>(9).fill('.sss.');
    const { transcript } = await transcribe({ channels: channels.slice(1) }, { options: split });
    expect(new Set(transcript.segments.map(({ speaker }) => speaker)).size).toBe(8);
    const refused = transcribe({ channels }, { options: split });
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(refused).rejects.toThrow('9 channels');
  });

  test('a mix is one voice as before', async () => {
    const { transcript, opened } = await transcribe({ audio: '.sss..', channels: CALL });
    expect(turns(transcript)).toEqual(['undefined 1']);
    expect(opened).toHaveLength(1);
  });

  test('share one language, which the first long stretch of any decides', async () => {
    const script = {
      languages: ['en', 'de'],
      optionNames: ALL_OPTIONS,
      channels: ['s........ss...', '...sssss......'],
    };
    const reply = () => ({ language: 'de' });
    const { asked, transcript } = await transcribe({ ...script, reply }, { options: split });
    expect(asked[0]).toEqual({ second: 3, options: {} });
    expect(asked.slice(1).every(({ options: { language } }) => language === 'de')).toBe(true);
    expect(transcript.language).toBe('de');
  });

  test('never hold more audio than the allowance of a job, each', async () => {
    const channels = ['ssssssss..'.repeat(60), '..ssssssss'.repeat(60)];
    const { opened, transcript } = await transcribe({ channels }, { options: split });
    expect(transcript.segments).toHaveLength(120);
    for (const { mostHeldSamples } of opened)
      expect(mostHeldSamples).toBeLessThanOrEqual(60 * SAMPLE_RATE);
  });

  test('end together when one of them fails', async () => {
    const failing = transcribe(
      {
        channels: ['.ss...'.repeat(40), '...ss.'.repeat(40)],
        onRecognize: ({ startSample }: TaskItem) => {
          if (startSample === 15 * SAMPLE_RATE) throw new Error('as told');
        },
      },
      { options: split },
    );
    await expect(failing).rejects.toThrow('as told');
    const broken = transcribe({ channels: CALL, brokenAtSecond: 5 }, { options: split });
    await expect(broken).rejects.toMatchObject({ code: 'INPUT_UNDECODABLE' });
  });

  test('end when the job is cancelled', async () => {
    const abort = new AbortController();
    const cancelled = transcribe(
      { channels: CALL, onRecognize: () => abort.abort(new Error('cancelled')) },
      { options: split, signal: abort.signal },
    );
    await expect(cancelled).rejects.toThrow('cancelled');
  });
});
