/**
 * whisper.cpp's own program, from the same source that the addon is built from, but by whisper.cpp's own build: Release, for
 * the very processor (AVX-512 where there is), OpenMP, and the fast matrix kernels that it leaves off by default. The program
 * in our native tests is not used here: it links our build of the library, made for any AVX2 processor.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';

const SOURCES = path.resolve(import.meta.dirname, '../node_modules/nodejs-whisper/cpp/whisper.cpp');
const BUILD_OPTIONS = [
  '-DCMAKE_BUILD_TYPE=Release',
  '-DBUILD_SHARED_LIBS=OFF',
  '-DGGML_NATIVE=ON',
  '-DGGML_LLAMAFILE=ON',
  '-DWHISPER_BUILD_TESTS=OFF',
  '-DWHISPER_BUILD_SERVER=OFF',
];
/** One beam, one candidate: greedy. The text goes to files. */
const GREEDY = ['-bs', '1', '-bo', '1', '-np', '-otxt'];
const FIRST_TEXT_LOOK_MS = 10;

function run(command, args) {
  const { status, stdout, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stdout}${stderr}`);
}

/** Builds it once, two minutes on two cores; returns the program. */
export function prepareWhisperCli(cache) {
  const build = path.join(cache, 'whisper.cpp');
  const program = path.join(build, 'bin/whisper-cli');
  if (existsSync(program)) return program;
  console.log('Building whisper-cli');
  run('cmake', ['-S', SOURCES, '-B', build, ...BUILD_OPTIONS]);
  const jobs = String(availableParallelism());
  run('cmake', ['--build', build, '--parallel', jobs, '--target', 'whisper-cli']);
  return program;
}

/**
 * Files dealt out to processes, each of which is given all of its files in one command and loads the model once.
 * @param options besides those of greedy decoding
 * @returns wall seconds from start to end and to the first text, and the texts in order
 */
export async function runWhisperCli(program, { model, processes, threads, options = [] }, files) {
  const folder = mkdtempSync(path.join(tmpdir(), 'wavepool-bench-cli-'));
  try {
    const output = (index) => path.join(folder, String(index));
    const startedAt = performance.now();
    const elapsed = () => (performance.now() - startedAt) / 1000;
    let firstSeconds;
    const look = setInterval(() => {
      if (readdirSync(folder).length > 0) firstSeconds ??= elapsed();
    }, FIRST_TEXT_LOOK_MS);
    await Promise.all(
      Array.from({ length: processes }, async (_, process) => {
        const places = files.flatMap((file, index) =>
          index % processes === process ? ['-of', output(index), '-f', file] : [],
        );
        const args = ['-m', model, '-t', String(threads), ...GREEDY, ...options, ...places];
        const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
        const errors = text(child.stderr);
        const [status] = await once(child, 'close');
        if (status !== 0) throw new Error(`whisper-cli ended with ${status}: ${await errors}`);
      }),
    ).finally(() => clearInterval(look));
    const seconds = elapsed();
    const texts = files.map((_, index) =>
      readFileSync(`${output(index)}.txt`, 'utf8')
        .replaceAll(/\s+/g, ' ')
        .trim(),
    );
    return { seconds, firstSeconds: firstSeconds ?? seconds, texts };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
