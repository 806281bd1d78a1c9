/** Files made to harm: references to other files and to the network, and hours of audio in a few bytes. */
import { once } from 'node:events';
import { stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openInput } from '../../src/worker/audio/input-channels.ts';
import { limitDuration } from '../../src/worker/audio/input-reader.ts';
import { engine, folder } from '../engine/engine-fixture.ts';
import { writeWav } from '../engine/fake-model.ts';
import { TEST_ADDON_BUILT } from '../engine/test-addon.ts';
import { keepsReadTimes, ReadWitness } from '../support/read-witness.ts';
import { ffmpeg } from '../support/speech.ts';
import { type Elsewhere, trickyTexts, writeReferenceMovie } from '../support/tricky-media.ts';

const RATE = 16_000;
const NEVER = new AbortController().signal;

/** Samples of an input, or the code of its failure. */
async function decoded(path: string): Promise<number | string> {
  try {
    const reader = await openInput(engine, { path }, 'ffmpeg');
    try {
      await reader.decodeUntil(Number.MAX_SAFE_INTEGER, NEVER);
      return reader.audio.endSample;
    } finally {
      await reader.close();
    }
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }
}

describe.runIf(TEST_ADDON_BUILT)(
  'an input that names other files or addresses',
  { timeout: 60_000 },
  () => {
    let server: Server;
    let port = 0;
    let contacts = 0;
    beforeAll(async () => {
      server = createServer((socket) => {
        contacts += 1;
        socket.destroy();
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const address = server.address();
      port = typeof address === 'object' && address !== null ? address.port : 0;
    });
    afterAll(() => server.close());

    /** Runs `attack` beside a file that it is after; neither that file nor the server is to be touched. */
    async function expectUntouched(attack: (elsewhere: Elsewhere) => Promise<void>): Promise<void> {
      const file = writeWav(join(folder, 'canary.wav'), 3);
      const watched = await keepsReadTimes(folder);
      if (!watched)
        process.stderr.write('NOT TESTED: reads, for this file system keeps no times of them\n');
      const canary = new ReadWitness(file);
      contacts = 0;
      await attack({ file, port });
      expect(contacts).toBe(0);
      if (watched) expect(canary.wasRead).toBe(false);
    }

    test('as a playlist, a script or a description is refused, under any name', async () => {
      await expectUntouched(async (elsewhere) => {
        for (const [kind, text] of Object.entries(trickyTexts(elsewhere))) {
          const extensions = ['wav', 'm3u8'];
          const ends = extensions.map(async (extension) => {
            const path = join(folder, `trick.${extension}`);
            await writeFile(path, text);
            return decoded(path);
          });
          expect(await Promise.all(ends), kind).toEqual(extensions.map(() => 'INPUT_UNDECODABLE'));
        }
      });
    });

    test('as a movie whose sound lies elsewhere gives nothing of that', async () => {
      await expectUntouched(async ({ file }) => {
        const movie = join(folder, 'reference.mov');
        await writeReferenceMovie(movie, file);
        // Its own samples, or none: never the three seconds of the other file.
        expect([2 * RATE, 'INPUT_UNDECODABLE', 'INPUT_EMPTY']).toContain(await decoded(movie));
      });
    });

    test('by its own name is a file like any other', async () => {
      await expectUntouched(async ({ file, port: there }) => {
        const source = join(folder, 'source.ogg');
        await ffmpeg('-f', 'lavfi', '-i', 'sine=d=1', '-c:a', 'libvorbis', source);
        for (const name of [
          `concat:canary.wav|canary.wav`,
          `subfile,,start,0,end,0,,:${file.replaceAll('/', '_')}`,
          `http:127.0.0.1:${there}`,
          'pipe:0',
          'data:audio,x',
          'frame%03d.ogg',
          '-i',
          '@list',
        ]) {
          const path = join(folder, name);
          await ffmpeg('-i', source, '-c', 'copy', '-f', 'ogg', `file:${path}`);
          expect(Number(await decoded(path)) / RATE, name).toBeCloseTo(1, 1);
        }
      });
    });
  },
);

describe.runIf(TEST_ADDON_BUILT)(
  'a small file that holds much silence',
  { timeout: 60_000 },
  () => {
    const SECONDS = 10 * 60;
    const PIECE = 30 * RATE;

    test.for([
      ['flac', ['-c:a', 'flac', '-sample_fmt', 's16']],
      ['mp3', ['-c:a', 'libmp3lame', '-b:a', '8k']],
      ['opus', ['-c:a', 'libopus', '-b:a', '6k']],
    ] as const)(
      'as %s is decoded in little memory, and refused where less is allowed',
      async ([extension, codec]) => {
        const path = join(folder, `silence.${extension}`);
        const silence = ['-f', 'lavfi', '-i', `anullsrc=r=${RATE}:cl=mono`, '-t', String(SECONDS)];
        await ffmpeg(...silence, ...codec, path);
        expect((await stat(path)).size).toBeLessThan(2 * 2 ** 20);

        const reader = await openInput(engine, { path }, 'ffmpeg');
        let most = 0;
        while (!reader.audio.ended) {
          await reader.decodeUntil(reader.audio.endSample + PIECE, NEVER);
          most = Math.max(most, reader.audio.residentBytes);
          reader.audio.release(reader.audio.endSample);
        }
        expect(Math.round(reader.audio.endSample / RATE)).toBe(SECONDS);
        await reader.close();
        // Two pieces of floats: what is held follows the piece, not the file.
        expect(most).toBeLessThan(2 * PIECE * 4);

        const limited = limitDuration(await openInput(engine, { path }, 'ffmpeg'), 60);
        await expect(limited.decodeUntil(SECONDS * RATE, NEVER)).rejects.toMatchObject({
          code: 'INPUT_TOO_LARGE',
        });
        expect(limited.audio.endSample).toBeLessThan(120 * RATE);
        await limited.close();
      },
    );
  },
);
