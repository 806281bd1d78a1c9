/** `wavepool run --channels split` over recordings of a call, as a user meets it. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectSaid, ffmpeg, type SpeechClip, speechClip } from '../support/speech.ts';
import { parseSrt, parseVtt } from '../support/subtitles.ts';
import { summaryOf } from '../support/wavepool-process.ts';
import { wordErrors } from '../support/word-error-rate.ts';
import { Workplace } from '../support/workplace.ts';

const AGENT = speechClip('sense-0870.flac');
const CALLER = speechClip('sense-0890.flac');
/** Before the caller begins to speak, the agent has ended. */
const CALLER_AT_SECONDS = 8;

let place: Workplace;

/** The agent on the left; on the right the caller, who answers. */
function writeCall(target: string, ...encoding: string[]): Promise<void> {
  const delay = `adelay=${CALLER_AT_SECONDS * 1_000}`;
  const one = 'aresample=16000,aformat=channel_layouts=mono';
  const graph = `[0:a]${one}[l];[1:a]${one},${delay}[r];[l]apad[p];[p][r]join=inputs=2:channel_layout=stereo[c]`;
  const inputs = ['-i', AGENT.path, '-i', CALLER.path];
  return ffmpeg(
    ...inputs,
    '-filter_complex',
    graph,
    '-map',
    '[c]',
    '-t',
    '42',
    ...encoding,
    target,
  );
}

function run(formats: string, ...more: string[]) {
  const split = ['--channels', 'split', '--format', formats, '--json'];
  return place.run([place.inputs, '--out', place.out, ...split, ...more]);
}

beforeAll(async () => {
  place = await Workplace.create();
  const input = (name: string): string => join(place.inputs, name);
  await writeCall(input('call.wav'));
  // Not read in process: a child for each channel.
  await writeCall(input('packed.m4a'), '-b:a', '128k');
  await ffmpeg('-i', CALLER.path, '-af', 'pan=stereo|c0=0*c0|c1=c0', input('silent-agent.flac'));
  await ffmpeg('-i', AGENT.path, '-ac', '1', input('one.wav'));
  const nine = 'asplit=9[a][b][c][d][e][f][g][h][i];[a][b][c][d][e][f][g][h][i]amerge=inputs=9';
  await ffmpeg('-i', AGENT.path, '-t', '1', '-filter_complex', nine, input('nine.wav'));
  const end = await run('json,txt,srt,vtt', '--speakers', 'agent,caller');
  expect(end.code, end.stderr).toBe(1);
  expect(summaryOf(end)).toMatchObject({
    done: 4,
    failed: [{ path: input('nine.wav'), code: 'INVALID_REQUEST' }],
  });
});

afterAll(() => place[Symbol.asyncDispose]());

function saidBy(
  speaker: string,
  segments: readonly { speaker?: string | undefined; text: string }[],
) {
  return segments
    .filter((segment) => segment.speaker === speaker)
    .map(({ text }) => text)
    .join(' ');
}

/** Whose words these are is never in doubt. */
function expectOnly(text: string, said: SpeechClip, other: SpeechClip): void {
  expectSaid(text, said.reference);
  const { errors, words } = wordErrors(other.reference, text);
  expect(errors).toBeGreaterThan(words / 2);
}

test.each(['call', 'packed'])(
  'each speaker of %s has the words of one channel, in the order of time',
  async (name) => {
    const { segments, audio, language } = await place.transcript(`${name}.json`);
    expectOnly(saidBy('agent', segments), AGENT, CALLER);
    expectOnly(saidBy('caller', segments), CALLER, AGENT);
    expect(audio.channels).toBe(2);
    expect(language).toBe('en');
    const turns = segments.map(({ speaker }) => speaker);
    expect(turns.toSorted()).toEqual(turns);
    for (const { speaker, start, end } of segments) {
      if (speaker === 'caller') expect(start).toBeGreaterThan(CALLER_AT_SECONDS - 1);
      else expect(end).toBeLessThan(CALLER_AT_SECONDS + 1);
    }
  },
);

test('the other formats tell who speaks', async () => {
  const turns = (await place.read('call.txt')).trimEnd().split('\n');
  expect(turns.map((turn) => turn.slice(0, turn.indexOf(':')))).toEqual(['agent', 'caller']);
  const cues = parseSrt(await place.read('call.srt'));
  const labelled = cues.map(({ lines }) => /^(agent|caller): /.exec(lines[0] ?? '')?.[1]);
  expect(labelled.filter((label) => label !== undefined)).toEqual(['agent', 'caller']);
  const voices = parseVtt(await place.read('call.vtt')).map(({ lines }) => lines[0] ?? '');
  expect(voices.every((line) => /^<v (agent|caller)>/.test(line))).toBe(true);
});

test('a silent channel says nothing; one channel has no speaker, and a warning', async () => {
  const silent = await place.transcript('silent-agent.json');
  expect(new Set(silent.segments.map(({ speaker }) => speaker))).toEqual(new Set(['caller']));
  expectSaid(silent.text, CALLER.reference);
  const one = await place.transcript('one.json');
  expect(one.warnings).toMatchObject([{ code: 'ONE_CHANNEL' }]);
  expect(one.segments.every(({ speaker }) => speaker === undefined)).toBe(true);
  expectSaid(one.text, AGENT.reference);
});

test('another format is no new work, other options are; what the model does not have ends the command', async () => {
  const again = await run('tsv', '--speakers', 'agent,caller');
  expect(summaryOf(again)).toMatchObject({ done: 4, audioSeconds: 0 });
  const [header, first] = (await place.read('call.tsv')).split('\n');
  expect(header).toBe('start\tend\tspeaker\ttext');
  expect(first?.split('\t')[2]).toBe('agent');
  for (const options of [['--words'], ['--translate'], ['--language', 'de'], ['--prompt', 'Ada']]) {
    const refused = await run('txt', ...options);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('OPTION_UNSUPPORTED');
  }
});
