import { EventEmitter, once } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { runCommandLine } from '../../../src/cli/program.ts';
import type { CliContext } from '../../../src/cli/terminal/context.ts';
import { EXIT } from '../../../src/cli/terminal/context.ts';
import { readConfig } from '../../../src/core/config.ts';
import { temporaryFolder } from '../../support/redis.ts';
import { runCli } from '../run-cli.ts';

test('serve prints its address, answers, and ends when it is told to', async () => {
  await using folder = await temporaryFolder();
  const interrupts = new EventEmitter();
  const stdout = new PassThrough({ encoding: 'utf8' });
  const context: CliContext = {
    stdout,
    stderr: new PassThrough().resume(),
    config: { ...readConfig(), dataDir: folder.path, logLevel: 'silent' },
    environment: {},
    onInterrupt: (handler) => {
      interrupts.on('interrupt', handler);
      return () => interrupts.off('interrupt', handler);
    },
    exitNow: () => undefined,
    exitCode: EXIT.done,
  };
  const argv = ['serve', '--port', '0', '--input-root', folder.path];
  const ended = runCommandLine(argv, context, { loadAddon: () => Promise.resolve('test') });
  const [line] = await once(stdout, 'data');
  const response = await fetch(`${String(line).trim()}/v1/models`);
  expect(await response.json()).toMatchObject({
    data: [{ id: 'moonshine-tiny' }, { id: 'silero-vad' }],
  });
  interrupts.emit('interrupt');
  expect(await ended).toBe(EXIT.done);
});

test.each([
  [['--host', '0.0.0.0'], 3, 'keys create'],
  [['--input-root', '/no/such/folder'], 2, 'input-root'],
  [['--port', '70000'], 2, 'port'],
  [['--model-alias', 'whisper-1'], 2, 'model-alias'],
  [['--max-upload', 'big'], 2, 'max-upload'],
  [['--workers', '2'], 2, 'add --with-worker'],
  [['--lazy'], 2, 'add --with-worker'],
])('serve %j ends with exit code %d', async (argv, code, hint) => {
  const end = await runCli(['serve', ...argv]);
  expect(end.code).toBe(code);
  expect(end.stderr).toContain(hint);
});
