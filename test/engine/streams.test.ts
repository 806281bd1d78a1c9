import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Audio, SessionPool, TaskResult, TaskStream } from '../../src/runtime/engine.ts';
import { engine, folder, item, openDecoded, openPool } from './engine-fixture.ts';
import { writeFakeModel } from './fake-model.ts';
import { faults, TEST_ADDON, TEST_ADDON_BUILT } from './test-addon.ts';

const streamingPool = (slots = 1): Promise<SessionPool> =>
  openPool({ mode: 'streaming', slots }, { architecture: 'fake-vad', maxSegmentSeconds: 0 });

/** Samples that differ from each other and from those of other seeds. */
function noise(count: number, seed = 1): Float32Array {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32 - 0.5;
  });
}

const refusal = (code: string) => expect.objectContaining({ code });

async function collect(parts: readonly Promise<TaskResult | undefined>[]): Promise<number[]> {
  return (await Promise.all(parts)).flatMap((part) => [...(part?.probabilities ?? [])]);
}

/** What a fresh stream says of `samples`, pushed `size` at a time. */
async function streamed(pool: SessionPool, samples: Float32Array, size: number): Promise<number[]> {
  const stream = await pool.startStream(0, {});
  const found = [];
  for (let at = 0; at < samples.length; at += size) {
    found.push(...(await collect([stream.push(samples.slice(at, at + size))])));
  }
  return [...found, ...(await collect([stream.finish()]))];
}

describe.skipIf(!TEST_ADDON_BUILT)('streams', () => {
  test('the parts of a stream are the result of the whole input, whatever its chunks', async () => {
    const pool = await streamingPool();
    const samples = noise(5_000);
    const whole = await streamed(pool, samples, samples.length);
    expect(whole).toHaveLength(10);
    for (const size of [100, 512, 513, 1_600]) {
      expect(await streamed(pool, samples, size)).toEqual(whole);
    }
  });

  test('ranges of audio in native memory give what the same samples give', async () => {
    const pool = await streamingPool();
    const samples = noise(4_096);
    const audio = engine.openLiveAudio();
    audio.append(samples);
    audio.end();
    const stream = await pool.startStream(0, {});
    const parts = [];
    for (const [startSample, endSample] of [
      [0, 1_000],
      [1_000, 4_096],
    ] as const) {
      parts.push(...(await collect([stream.push({ audio, startSample, endSample })])));
    }
    await stream.finish();
    expect(parts).toEqual(await streamed(pool, samples, 512));
    await audio.close();
  });

  test('the samples of a push may be overwritten at once', async () => {
    const pool = await streamingPool();
    const samples = noise(1_024);
    const expected = await streamed(pool, samples, 1_024);
    const stream = await pool.startStream(0, {});
    const pushed = stream.push(samples);
    samples.fill(0);
    expect(await collect([pushed])).toEqual(expected);
    await stream.reset();
  });

  test('two interleaved streams keep their own state (P6)', async () => {
    const pool = await streamingPool(2);
    const [one, two] = [noise(2_048, 3), noise(1_024, 4)];
    const [first, second] = await Promise.all([pool.startStream(0, {}), pool.startStream(1, {})]);
    const ofFirst = await collect([first.push(one.slice(0, 1_024))]);
    const ofSecond = await collect([second.push(two)]);
    ofFirst.push(...(await collect([first.push(one.slice(1_024))])));
    await Promise.all([first.finish(), second.finish()]);
    expect(ofFirst).toEqual(await streamed(pool, one, 2_048));
    expect(ofSecond).toEqual(await streamed(pool, two, 1_024));
    expect([ofFirst.length, ofSecond.length]).toEqual([4, 2]);
  });

  test('a slot with an open stream takes no batch and no second stream until it has ended', async () => {
    const pool = await streamingPool();
    const audio = await openDecoded(1);
    const stream = await pool.startStream(0, {});
    expect(() => pool.run(0, [item(audio, 0)])).toThrow(refusal('SLOT_BUSY'));
    await expect(pool.startStream(0, {})).rejects.toEqual(refusal('SLOT_BUSY'));
    await stream.finish();
    // Many times, because a slot must be free whenever a promise says so.
    for (let round = 0; round < 50; round += 1) {
      const next = await pool.startStream(0, {});
      await next.push(noise(512));
      await next[round % 2 === 0 ? 'finish' : 'reset']();
    }
    // A streaming session has no offline side.
    await expect(pool.run(0, [item(audio, 0)]).done).rejects.toEqual(refusal('INVALID_REQUEST'));
  });

  test('an offline session cannot start a stream, nor can a slot that runs a batch (C1)', async () => {
    const pool = await openPool();
    await expect(pool.startStream(0, {})).rejects.toEqual(refusal('INVALID_REQUEST'));
    const streaming = await streamingPool();
    await expect(streaming.startStream(1, {})).rejects.toEqual(refusal('INVALID_REQUEST'));
    await expect(streaming.startStream(0.5, {})).rejects.toEqual(refusal('INVALID_REQUEST'));
  });

  test('a start that fails leaves the slot free', async () => {
    const pool = await streamingPool();
    await expect(pool.startStream(0, { fault: 'prepare' })).rejects.toEqual(
      refusal('INVALID_REQUEST'),
    );
    await (await pool.startStream(0, {})).finish();
  });

  test('an ended stream takes nothing more, and is not finished twice (C1)', async () => {
    const pool = await streamingPool();
    const finished = await pool.startStream(0, {});
    await finished.finish();
    const reset = await pool.startStream(0, {});
    await reset.reset();
    for (const stream of [finished, reset]) {
      await expect(stream.push(noise(512))).rejects.toEqual(refusal('INVALID_REQUEST'));
      await expect(stream.finish()).rejects.toEqual(refusal('INVALID_REQUEST'));
      await stream.reset();
    }
  });

  test('a failure ends the stream, and the next one starts from nothing (P7, C1)', async () => {
    const pool = await streamingPool();
    const samples = noise(2_048);
    const expected = await streamed(pool, samples, 512);
    for (const end of ['push', 'finish'] as const) {
      const stream = await pool.startStream(0, {});
      await stream.push(noise(700, 9));
      faults().setFault('run', true);
      const failing = end === 'push' ? stream.push(samples) : stream.finish();
      await expect(failing).rejects.toEqual(refusal('INTERNAL'));
      faults().setFault('run', false);
      await expect(stream.push(samples)).rejects.toEqual(refusal('INVALID_REQUEST'));
      expect(await streamed(pool, samples, 512)).toEqual(expected);
    }
  });

  test('one call at a time; a reset ends the one that runs, and may be asked for twice', async () => {
    const pool = await streamingPool();
    const expected = await streamed(pool, noise(1_024), 1_024);
    const stream = await pool.startStream(0, {});
    await stream.push(noise(300, 8));
    faults().setFault('gate', true);
    const running = stream.push(noise(512));
    await expect(stream.push(noise(512))).rejects.toEqual(refusal('INVALID_REQUEST'));
    const resets = Promise.all([stream.reset(), stream.reset()]);
    await expect(running).rejects.toEqual(refusal('CANCELLED'));
    await resets;
    faults().setFault('gate', false);
    expect(await streamed(pool, noise(1_024), 1_024)).toEqual(expected);
  });

  test('leaving the scope of a stream resets it', async () => {
    const pool = await streamingPool();
    {
      await using stream: TaskStream = await pool.startStream(0, {});
      await stream.push(noise(700));
    }
    await (await pool.startStream(0, {})).finish();
  });

  test('closing the pool ends its streams', async () => {
    const pool = await streamingPool();
    const stream = await pool.startStream(0, {});
    await stream.push(noise(700));
    await pool.close();
    await expect(stream.push(noise(512))).rejects.toEqual(refusal('INVALID_REQUEST'));
    await stream.reset();
  });

  test('what is no chunk is refused, and the stream goes on', async () => {
    const pool = await streamingPool();
    const stream = await pool.startStream(0, {});
    const audio: Audio = engine.openLiveAudio();
    const beyond = stream.push({ audio, startSample: 0, endSample: Number.NaN });
    await expect(beyond).rejects.toEqual(refusal('INVALID_REQUEST'));
    await audio.close();
    const closed = stream.push({ audio, startSample: 0, endSample: 0 });
    await expect(closed).rejects.toEqual(refusal('INVALID_REQUEST'));
    expect(await collect([stream.push(noise(1_024))])).toHaveLength(2);
    await stream.finish();
  });
});

/** Plain JavaScript against the addon itself, in a process of its own. */
function runScript(body: string, ...flags: string[]) {
  const model = writeFakeModel(path.join(folder, 'model.gguf'), {
    architecture: 'fake-vad',
    maxSegmentSeconds: 0,
  });
  const script = `
    const addon = require(${JSON.stringify(TEST_ADDON)});
    const openPool = async () =>
      (await addon.loadModel(${JSON.stringify(model)})).createPool({ slots: 1, mode: 'streaming', threads: 1, maxBatch: 1 });
    const samples = new Float32Array(1000).fill(0.25);
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    ${body}`;
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [...flags, '-e', script], {
    timeout: 60_000,
  });
  return { status, signal, stdout: String(stdout), stderr: String(stderr) };
}

describe.skipIf(!TEST_ADDON_BUILT)('abandoned streams', () => {
  test('a stream that is garbage collected is reset, and its slot serves the next one', () => {
    const { status, stdout, stderr } = runScript(
      `(async () => {
        const pool = await openPool();
        const abandon = async (running) => {
          const stream = await pool.startStream(0, {});
          await stream.push(samples);
          if (running) void stream.push(samples).catch(() => {});
        };
        const next = async () => {
          for (;;) {
            gc();
            await turn();
            try {
              return await pool.startStream(0, {});
            } catch (error) {
              if (error.code !== 'SLOT_BUSY') throw error;
            }
          }
        };
        await abandon(false);
        await (await next()).finish();
        await abandon(true);
        const fresh = await next();
        const part = await fresh.push(samples);
        console.log(part.probabilities.length);
        await fresh.finish();
      })();`,
      '--expose-gc',
    );
    expect({ status, stderr, stdout }).toEqual({ status: 0, stderr: '', stdout: '1\n' });
  });

  test('a process can exit with a stream open and a call running', () => {
    const end = runScript(`(async () => {
      globalThis.pool = await openPool();
      globalThis.stream = await pool.startStream(0, {});
      await stream.push(samples);
      addon.setFault('hang', true);
      void stream.push(samples);
      process.exit(7);
    })();`);
    expect(end).toEqual({ status: 7, signal: null, stdout: '', stderr: '' });
  });

  test('an open stream keeps no process alive', () => {
    const end = runScript(`(async () => {
      globalThis.pool = await openPool();
      globalThis.stream = await pool.startStream(0, {});
      await stream.push(samples);
    })();`);
    expect(end).toEqual({ status: 0, signal: null, stdout: '', stderr: '' });
  });

  test('the addon refuses what are not its handles', () => {
    const { status, stdout } = runScript(`(async () => {
      const pool = await openPool();
      const stream = await pool.startStream(0, {});
      const attempts = [
        () => new stream.constructor(),
        () => stream.push.call(pool, samples),
        () => stream.push([0.5]),
        () => stream.push(new Float64Array(8)),
        () => stream.push(pool, 0, 1),
        () => pool.startStream('0', {}),
        () => pool.startStream(0, 7),
      ];
      for (const attempt of attempts) {
        try {
          attempt();
          process.stdout.write('accepted: ' + attempt + '\\n');
        } catch {}
      }
      await stream.finish();
    })();`);
    expect({ status, stdout }).toEqual({ status: 0, stdout: '' });
  });
});
