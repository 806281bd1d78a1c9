/** What a transcript is to hold, as it is typed; nothing is opened or pulled for what cannot be. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { spokenOptionsOf } from '../../../src/cli/options/task-options.ts';
import { EXIT } from '../../../src/cli/terminal/context.ts';
import { runCli } from '../run-cli.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'wavepool-options-'));
  writeFileSync(path.join(folder, 'call.wav'), 'audio');
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  [['--language', 'de'], 'OPTION_UNSUPPORTED'],
  [['--speakers', 'agent,caller'], '--speakers needs --channels split'],
  [['--task', 'vad', '--words'], '--words is for --task transcribe'],
  [['--task', 'vad', '--channels', 'split'], '--channels is for --task transcribe'],
  [['--language', 'English!'], 'language tag'],
  [['--channels', 'both'], 'mix, split'],
  [['--channels', 'split', '--speakers', 'a,,b'], 'separated by commas'],
  [['--channels', 'split', '--speakers', 'a,b,c,d,e,f,g,h,i'], 'Use up to 8 names'],
])('run and enqueue with %j end with exit code 2, and say why', async (options, why) => {
  const input = path.join(folder, 'call.wav');
  for (const command of ['run', 'enqueue']) {
    const { code, stdout, stderr } = await runCli([command, input, ...options]);
    expect(code, stderr).toBe(EXIT.usage);
    expect(stderr).toContain(why);
    expect(stdout).toBe('');
  }
});

test('a job is told what was said, and nothing of the rest', () => {
  expect(spokenOptionsOf('transcribe', {})).toEqual({});
  const said = { language: 'en-US', words: true, channels: 'split', speakers: ['a', 'b'] } as const;
  const options = { ...said, speakers: [...said.speakers] };
  expect(spokenOptionsOf('transcribe', options)).toEqual(said);
  expect(spokenOptionsOf('vad', {})).toEqual({});
});
