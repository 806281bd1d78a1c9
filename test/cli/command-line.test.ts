import { Command } from 'commander';
import { expect, test } from 'vitest';
import {
  addResidencyOptions,
  DEFAULT_RESIDENCY,
  residencyOf,
} from '../../src/cli/fleet/residency-options.ts';
import { modelsOf } from '../../src/cli/options/options.ts';
import { runCli } from './run-cli.ts';

const FOLDER = import.meta.dirname;

const COMMANDS: readonly (readonly string[])[] = [
  ['run'],
  ['worker'],
  ['doctor'],
  ['models', 'list'],
  ['models', 'pull'],
  ['models', 'import'],
  ['models', 'show'],
  ['models', 'remove'],
  ['models', 'validate'],
  ['framework', 'validate'],
  ['models', 'load'],
  ['models', 'unload'],
  ['models', 'reconfigure'],
  ['serve'],
  ['watch'],
  ['enqueue'],
  ['status'],
  ['jobs', 'list'],
  ['jobs', 'show'],
  ['jobs', 'cancel'],
  ['jobs', 'retry'],
];

const RUN_OPTIONS = [
  '--out',
  '--format',
  '--model',
  '--task',
  '--vad-threshold',
  '--vad-min-speech',
  '--vad-min-silence',
  '--vad-pad',
  '--input-format',
  '--slots',
  '--unvalidated-slots',
  '--batch',
  '--threads',
  '--workers',
  '--data-dir',
  '--models-dir',
  '--redis',
  '--json',
  '--quiet',
];

test('the help of run names every option, the exit codes and examples', async () => {
  const { code, stdout } = await runCli(['run', '--help']);
  expect(code).toBe(0);
  for (const option of RUN_OPTIONS) expect(stdout).toContain(option);
  expect(stdout).toContain('Examples:');
  expect(stdout).toContain('Exit codes:');
});

test.each(COMMANDS)('%s %s has help and a description', async (...command) => {
  const { code, stdout } = await runCli([...command.filter(Boolean), '--help']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Usage: wavepool /);
});

test('every command that adds jobs takes the task and how speech is told from silence', async () => {
  for (const command of ['run', 'watch', 'enqueue']) {
    const { stdout } = await runCli([command, '--help']);
    for (const option of ['--task', '--model', '--vad-threshold', '--vad-pad', 'silero-vad'])
      expect(stdout).toContain(option);
  }
});

test('every command that has workers takes the options of their capacity', async () => {
  for (const command of ['run', 'watch', 'worker']) {
    const { stdout } = await runCli([command, '--help']);
    for (const option of ['--slots', '--unvalidated-slots', '--batch', '--threads', '--workers'])
      expect(stdout).toContain(option);
  }
});

test('commands whose workers stay say when models leave memory, and take several models', async () => {
  for (const command of ['worker', 'serve']) {
    const { stdout } = await runCli([command, '--help']);
    for (const option of ['--lazy', '--max-loaded-models', '--idle-unload', '--min-free-memory'])
      expect(stdout).toContain(option);
    expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(/--model <id> .{0,120}\(repeatable/);
  }
});

test('slots without evidence are warned of at the start, and only they', async () => {
  // An unknown model ends the command before anything is started.
  const start = (...options: string[]) => runCli(['worker', '--model', 'none', ...options]);
  const warned = await start('--unvalidated-slots', '3');
  expect(warned.stderr).toMatch(/^warning: up to 3 slots are taken without evidence/);
  expect(warned.code).toBe(2);
  expect((await start('--slots', '1')).stderr).not.toContain('warning');
  expect((await start()).stderr).not.toContain('warning');
});

test('what is said of memory and models is what workers are told', () => {
  const command = addResidencyOptions(new Command());
  command.parse(
    [
      ...['--lazy', '--max-loaded-models', '2', '--idle-unload', '5m', '--min-free-memory', '1G'],
      ...['--lock-duration', '5s'],
    ],
    { from: 'user' },
  );
  expect(residencyOf(command.opts())).toEqual({
    lazy: true,
    maxLoadedModels: 2,
    idleUnloadMs: 300_000,
    minFreeMemoryMb: 1_024,
    busyTimeoutMs: 0,
    hangLimitMs: 600_000,
    lockDurationMs: 5_000,
    stalledIntervalMs: 2_500,
    liveStreams: 0,
  });
  expect(residencyOf(addResidencyOptions(new Command()).opts())).toEqual(DEFAULT_RESIDENCY);
  expect(modelsOf([])).toEqual(['moonshine-tiny']);
  expect(modelsOf(['a', 'b', 'a'])).toEqual(['a', 'b']);
});

test('the version is that of the package', async () => {
  const { code, stdout } = await runCli(['--version']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test.each([
  ['no command', [], 'Usage'],
  ['an unknown command', ['transcribe'], "unknown command 'transcribe'"],
  ['an unknown option', ['run', 'x.wav', '--speed'], "unknown option '--speed'"],
  ['no path', ['run'], "missing required argument 'path'"],
  ['an unknown format', ['run', 'x.wav', '--format', 'doc'], 'txt, json, srt, vtt'],
  ['an unknown task', ['run', 'x.wav', '--task', 'sing'], 'transcribe, vad'],
  [
    'subtitles of speech segments',
    ['run', FOLDER, '--task', 'vad', '--format', 'srt'],
    'json, rttm, audacity',
  ],
  ['speech segments of a transcript', ['run', FOLDER, '--format', 'rttm'], 'txt, json, srt, vtt'],
  [
    'a task that the model does not do',
    ['run', FOLDER, '--task', 'vad', '--model', 'moonshine-tiny'],
    'TASK_UNSUPPORTED',
  ],
  [
    'a model that does not transcribe',
    ['run', FOLDER, '--model', 'silero-vad'],
    'TASK_UNSUPPORTED',
  ],
  [
    'the same in watch',
    ['watch', FOLDER, '--out', 'x', '--model', 'silero-vad'],
    'TASK_UNSUPPORTED',
  ],
  ['the same in enqueue', ['enqueue', FOLDER, '--model', 'silero-vad'], 'TASK_UNSUPPORTED'],
  [
    'label tracks of a folder for stdout',
    ['run', FOLDER, '--task', 'vad', '--format', 'audacity'],
    '--out',
  ],
  ['a probability of more than 1', ['run', 'x.wav', '--vad-threshold', '1.5'], 'between 0 and 1'],
  ['a pause of minutes', ['run', 'x.wav', '--vad-min-silence', '2m'], 'at most 60s'],
  ['no slots', ['run', 'x.wav', '--slots', '0'], 'whole number from 1 to 16'],
  ['too many slots', ['run', 'x.wav', '--slots', '17'], 'whole number from 1 to 16'],
  ['slots that are no number', ['worker', '--slots', 'many'], 'whole number'],
  ['two slot counts', ['run', 'x', '--slots', '2', '--unvalidated-slots', '2'], 'cannot be used'],
  ['half a worker', ['run', 'x.wav', '--workers', '0.5'], 'whole number'],
  ['a path that does not exist', ['run', '/no/such/folder'], 'INPUT_NOT_FOUND'],
  ['an unknown model', ['models', 'pull', 'no-such-model'], 'MODEL_UNKNOWN'],
  ['an unknown model in run', ['run', import.meta.dirname, '--model', 'nothing'], 'MODEL_UNKNOWN'],
  ['a Redis that is no URL', ['worker', '--redis', 'localhost'], 'redis://'],
  ['a summary in the place of transcripts', ['run', import.meta.dirname, '--json'], '--out'],
  ['two formats for stdout', ['run', import.meta.dirname, '--format', 'txt,json'], '--out'],
  ['subtitles of a folder for stdout', ['run', import.meta.dirname, '--format', 'srt'], '--out'],
])('%s is a usage error that says so', async (_what, argv, words) => {
  const { code, stdout, stderr } = await runCli(argv);
  expect(code).toBe(2);
  expect(stderr).toContain(words);
  expect(stderr).not.toMatch(/^\s+at /m);
  expect(stdout).toBe('');
});

test('models list shows what there is, for people and for programs', async () => {
  const table = await runCli(['models', 'list']);
  expect(table.code).toBe(0);
  expect(table.stdout).toMatch(/^moonshine-tiny +asr +en +MIT .* missing +npm:/m);
  expect(table.stdout).toMatch(/^silero-vad +vad +any +MIT /m);

  const { stdout } = await runCli(['models', 'list', '--json']);
  const { models } = JSON.parse(stdout);
  expect(models[0]).toMatchObject({
    id: 'moonshine-tiny',
    task: 'asr',
    state: 'missing',
    path: null,
  });
});
