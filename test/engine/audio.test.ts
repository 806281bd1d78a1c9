import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  engine,
  folder,
  item,
  openDecoded,
  openFromChild,
  openPool,
  openWav,
  textAlone,
} from './engine-fixture.ts';
import { TEST_ADDON_BUILT } from './test-addon.ts';

describe.skipIf(!TEST_ADDON_BUILT)('audio', () => {
  test('a file is decoded step by step, and released samples leave memory', async () => {
    const audio = await openWav(20);
    expect(audio.info).toMatchObject({ container: 'wav', sampleRate: 16_000, channels: 1 });
    expect(audio.endSample).toBe(0);
    await audio.decodeUntil(16_000);
    expect(audio.endSample).toBeGreaterThanOrEqual(16_000);
    expect(audio.ended).toBe(false);
    await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    expect(audio.endSample).toBe(320_000);
    expect(audio.ended).toBe(true);
    const before = audio.residentBytes;
    audio.release(300_000);
    expect(audio.residentBytes).toBeLessThan(before / 4);
    expect(audio.warnings).toEqual([]);
  });

  test('a missing file and an empty file are told apart', async () => {
    const missing = engine.openAudio({ kind: 'file', path: path.join(folder, 'no.wav') });
    await expect(missing).rejects.toMatchObject({ code: 'INPUT_NOT_FOUND' });
    const empty = path.join(folder, 'empty.wav');
    writeFileSync(empty, '');
    await expect(engine.openAudio({ kind: 'file', path: empty })).rejects.toMatchObject({
      code: 'INPUT_EMPTY',
    });
  });

  test('only one decode runs at a time', async () => {
    const audio = await openWav(5);
    const first = audio.decodeUntil(80_000);
    await expect(audio.decodeUntil(80_000)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await first;
  });

  test('an aborted signal cancels before decoding', async () => {
    const audio = await openWav(1);
    await expect(audio.decodeUntil(1, AbortSignal.abort())).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    await audio.decodeUntil(1);
  });

  test('a pipe gives the same samples as the file that a child writes into it', async () => {
    const { audio, child } = await openFromChild('');
    await audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    expect(audio.endSample).toBe(48_000);
    expect(audio.ended).toBe(true);
    const pool = await openPool();
    const fromFile = await openDecoded(3, 9);
    const fromPipe = await textAlone(pool, item(audio, 1));
    expect(fromPipe).toMatch(/^fake /);
    expect(fromPipe).toBe(await textAlone(pool, item(fromFile, 1)));
    if (child.exitCode === null) await once(child, 'exit');
  });

  test('a stalled pipe ends by its signal, holding up no other input', async () => {
    const { audio, child } = await openFromChild('process.stdin.resume()');
    const controller = new AbortController();
    const stalled = audio.decodeUntil(Number.MAX_SAFE_INTEGER, controller.signal);
    const others = await Promise.all([2, 3, 4, 5].map((seed) => openDecoded(1, seed)));
    expect(others.map((other) => other.endSample)).toEqual([16_000, 16_000, 16_000, 16_000]);
    controller.abort();
    await expect(stalled).rejects.toMatchObject({ code: 'CANCELLED' });
    child.kill();
    await once(child, 'exit');
  });

  test('closing ends a decode in progress and frees everything', async () => {
    const { audio, child } = await openFromChild('process.stdin.resume()');
    const stalled = audio.decodeUntil(Number.MAX_SAFE_INTEGER);
    const closed = audio.close();
    expect(audio.close()).toBe(closed);
    await expect(stalled).rejects.toMatchObject({ code: 'CANCELLED' });
    await closed;
    expect(audio.residentBytes).toBe(0);
    await expect(audio.decodeUntil(1)).rejects.toMatchObject({ code: 'CANCELLED' });
    audio.release(1);
    child.kill();
    await once(child, 'exit');
  });
});
